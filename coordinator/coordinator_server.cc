#include "coordinator/coordinator_server.h"

#include <utility>

#include "common/base/notification.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/chat_template.h"
#include "coordinator/coordinator_config.h"
#include "coordinator/merge_policies.h"

namespace espalier::coordinator {

CoordinatorServer::CoordinatorServer(TargetIdentity target)
    : target_(std::move(target)), policies_("strategy") {
  RegisterMergePolicies(policies_);
}

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Create(
    const v1::CoordinatorCoreConfig& config, Peers peers, Options options) {
  std::unique_ptr<CoordinatorServer> server(
      new CoordinatorServer(std::move(options.target)));
  const TargetIdentity& target = server->target_;

  ASSIGN_OR_RETURN(Coordinator::Options core, OptionsFromConfig(config));
  core.executor = options.executor;
  core.drafters = std::move(peers.drafters);
  core.verifier = peers.verifier;
  core.verifier_info = peers.verifier_info;
  core.policies = &server->policies_;
  core.metrics = options.metrics;
  core.epoch = options.epoch;
  core.model = target.identity.name;
  ASSIGN_OR_RETURN(server->coordinator_, Coordinator::Create(std::move(core)));

  ServedModel model = {.name = target.identity.name,
                       .tokenizer = target.tokenizer.get()};
  auto chat_template = ChatTemplate::Create(target.tokenizer.get());
  if (chat_template.ok()) model.chat_template = *std::move(chat_template);
  server->service_ = std::make_unique<InferenceService>(
      InferenceService::Options{.coordinator = server->coordinator_.get(),
                                .model = std::move(model),
                                .strategies = server->policies_.Names(),
                                .verifier_info = peers.verifier_info,
                                .describe_peers = peers.describe});
  server->status_ = std::make_unique<StatusReport>(StatusReport::Options{
      .coordinator = server->coordinator_.get(),
      .metrics = options.metrics,
      .describe_peers = peers.describe,
      .model = target.identity.name,
      .tokenizer = config.status_text() ? target.tokenizer.get() : nullptr});
  return server;
}

std::vector<HttpPage> CoordinatorServer::StatusPages() const {
  return {{.path = "/",
           .content_type = "text/html; charset=utf-8",
           .body = [](absl::string_view) { return kStatusPageHtml; }},
          {.path = "/status.json",
           .content_type = "application/json",
           .body = [status = status_.get()](absl::string_view query) {
             return status->Json(query);
           }}};
}

CoordinatorServer::~CoordinatorServer() {
  if (coordinator_ == nullptr) return;
  Notification done;
  coordinator_->Shutdown([&done] { done.Notify(); });
  done.Wait();
}

void CoordinatorServer::Drain(absl::Time deadline) {
  // Shared, because the coordinator may become idle after the deadline.
  auto idle = std::make_shared<Notification>();
  coordinator_->Drain([idle] { idle->Notify(); });
  idle->WaitUntil(deadline);
}

}  // namespace espalier::coordinator
