#include "coordinator/coordinator_server.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/base/notification.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "common/chat/chat_template.h"
#include "common/rpc/metrics_text.h"
#include "coordinator/api/admin_service.h"
#include "coordinator/api/inference_service.h"
#include "coordinator/coordinator_config.h"
#include "coordinator/http/route.h"
#include "coordinator/merge/merge_policies.h"

namespace espalier::coordinator {
namespace {

// Files that may change are looked at.
constexpr absl::Duration kLookEvery = absl::Seconds(1);

using DrafterNames = google::protobuf::RepeatedPtrField<std::string>;

// Calls `mark` for the drafters that a field names.
template <typename Mark>
absl::Status MarkNamed(absl::string_view field, const DrafterNames& names,
                       Mark mark, std::vector<DrafterHandle>& drafters) {
  for (const std::string& name : names) {
    const auto found =
        std::find_if(drafters.begin(), drafters.end(),
                     [&](const DrafterHandle& d) { return d.name == name; });
    if (found == drafters.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("core.", field, ": no drafter is named \"", name, "\""));
    }
    mark(*found);
  }
  return absl::OkStatus();
}

absl::Status MarkDrafters(const v1::CoordinatorCoreConfig& config,
                          std::vector<DrafterHandle>& drafters) {
  RETURN_IF_ERROR(MarkNamed(
      "shadow_drafters", config.shadow_drafters(),
      [](DrafterHandle& d) { d.role = DrafterRole::kShadow; }, drafters));
  return MarkNamed(
      "trusted_drafters", config.trusted_drafters(),
      [](DrafterHandle& d) { d.trusted = true; }, drafters);
}

// Room for a request with the largest prompt and a margin, so that a slightly
// larger one still gets an error that names the field.
int MessageBytesFor(int64_t max_prompt_bytes) {
  constexpr int64_t kRest = int64_t{4} << 20;
  return static_cast<int>(std::min<int64_t>(max_prompt_bytes + kRest,
                                            std::numeric_limits<int>::max()));
}

// What the warm-up continues: a question as most requests are, or the same as
// plain text if the model has no chat template.
std::vector<TokenId> WarmUpText(const ServedModel& model) {
  const std::string text =
      "Describe how a river changes from its spring in the mountains to the "
      "sea, and name three animals that live in it and on its banks.";
  if (model.chat_template != nullptr) {
    auto rendered = model.chat_template->Render(
        {.messages = {{.role = "user", .content = text}}});
    if (rendered.ok()) return *std::move(rendered);
  }
  return model.tokenizer->Encode(text);
}

}  // namespace

CoordinatorServer::CoordinatorServer(TargetIdentity target)
    : target_(std::move(target)), policies_("strategy") {
  RegisterMergePolicies(policies_);
}

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Create(
    const v1::CoordinatorCoreConfig& config, Peers peers, Options options) {
  std::unique_ptr<CoordinatorServer> server(
      new CoordinatorServer(std::move(options.target)));
  server->gate_ = std::move(options.gate);
  const TargetIdentity& target = server->target_;

  ServedModel model = {.name = target.identity.name,
                       .tokenizer = target.tokenizer.get()};
  auto chat_template = NewChatTemplate(target.tokenizer.get());
  if (chat_template.ok()) {
    model.chat_template = *std::move(chat_template);
  } else {
    model.why_no_chat = std::string(chat_template.status().message());
  }
  ASSIGN_OR_RETURN(Coordinator::Options core, OptionsFromConfig(config));
  if (!config.has_warm_up() || config.warm_up()) {
    core.warm_up_text = WarmUpText(model);
  }
  core.executor = options.executor;
  core.drafters = std::move(peers.drafters);
  RETURN_IF_ERROR(MarkDrafters(config, core.drafters));
  core.verifier = peers.verifier;
  core.verifier_info = peers.verifier_info;
  core.policies = &server->policies_;
  core.metrics = options.metrics;
  core.epoch = options.epoch;
  core.tracing = options.tracing;
  core.model = target.identity.name;
  ASSIGN_OR_RETURN(server->coordinator_, Coordinator::Create(std::move(core)));

  server->tenants_ = std::make_unique<TenantsFile>(
      config.tenants_file(), &server->coordinator_->tenants());
  RETURN_IF_ERROR(WithPrefix("core.tenants_file", server->tenants_->Read()));
  ASSIGN_OR_RETURN(model.max_prompt_bytes, MaxPromptBytes(config));
  server->max_message_bytes_ = MessageBytesFor(model.max_prompt_bytes);
  ASSIGN_OR_RETURN(const PriorityLimits priorities,
                   PriorityLimitsFromConfig(config));
  server->calls_ = std::make_unique<GenerateCalls>(
      GenerateCalls::Options{.coordinator = server->coordinator_.get(),
                             .model = std::move(model),
                             .verifier_info = peers.verifier_info,
                             .priority_limits = priorities,
                             .tenant_metadata = config.tenant_metadata(),
                             .paced = config.has_pace_ms()});
  server->generator_ = std::make_unique<LocalGenerator>(server->calls_.get());
  server->http_context_ = std::make_unique<ApiContext>(ApiContext{
      .generator = server->generator_.get(),
      .model = &server->calls_->model(),
      .verifier_info = peers.verifier_info,
      .readiness =
          [is_ready = peers.verifier_is_ready, info = peers.verifier_info] {
            if (info().has_value() && is_ready()) return absl::OkStatus();
            return absl::UnavailableError("the verifier is away");
          },
      .metrics = nullptr,
      .start_time = absl::Now()});
  server->inference_ = std::make_unique<InferenceService>(
      InferenceService::Options{.coordinator = server->coordinator_.get(),
                                .calls = server->calls_.get(),
                                .strategies = server->policies_.Names(),
                                .verifier_info = peers.verifier_info,
                                .describe_peers = peers.describe,
                                .gate = server->gate_});
  ASSIGN_OR_RETURN(AccessToken status_key,
                   AccessToken::ReadFile(config.status_key_file()));
  server->status_ = std::make_unique<StatusReport>(
      StatusReport::Options{.coordinator = server->coordinator_.get(),
                            .describe_peers = peers.describe,
                            .model = target.identity.name,
                            .text_key = std::move(status_key),
                            .tokenizer = target.tokenizer.get()});
  server->sampler_ = std::jthread([self = server.get()] {
    while (
        !self->stopping_.WaitUntil(absl::Now() + StatusReport::kSampleEvery)) {
      self->status_->Sample();
    }
  });
  if (!config.tenants_file().empty()) {
    server->reader_ = std::jthread([self = server.get()] {
      while (!self->stopping_.WaitUntil(absl::Now() + kLookEvery)) {
        self->tenants_->Refresh();
      }
    });
  }
  return server;
}

int CoordinatorServer::max_streams() const {
  constexpr int64_t kMin = 100;
  constexpr int64_t kMax = 4096;
  constexpr int64_t kOtherCalls = 16;  // health, load, ...
  const Coordinator::LoadInfo load = coordinator_->Load();
  const int64_t places = load.max_sessions + load.max_queued;
  return static_cast<int>(std::clamp(places + kOtherCalls, kMin, kMax));
}

std::vector<http::Page> CoordinatorServer::StatusPages() const {
  return {{.path = "/",
           .content_type = "text/html; charset=utf-8",
           .body = [](absl::string_view) { return kStatusPageHtml; }},
          {.path = "/status.json",
           .content_type = "application/json",
           .body = [status = status_.get()](absl::string_view query) {
             return status->Json(query);
           }}};
}

std::vector<ServerRunner::Service> CoordinatorServer::Services() {
  return {{"espalier.v1.Inference", inference_.get()}};
}

absl::StatusOr<std::unique_ptr<ServerRunner>> CoordinatorServer::StartAdmin(
    absl::Span<const std::string> addresses, const v1::AdminConfig& config,
    std::shared_ptr<prometheus::Registry> metrics) {
  if (addresses.empty()) return nullptr;
  const auto start = [&]() -> absl::StatusOr<std::unique_ptr<ServerRunner>> {
    const v1::ServerConfig server = AdminServerConfig(addresses, config);
    ASSIGN_OR_RETURN(admin_gate_, AccessGate::Open(AdminRules(config)));
    ASSIGN_OR_RETURN(auto audit, AuditLog::Open(config.audit_file()));
    admin_ = std::make_unique<AdminService>(coordinator_.get(), admin_gate_,
                                            std::move(audit));
    return ServerRunner::Start(
        {.config = server,
         .services = {{"espalier.v1.Admin", admin_.get()}},
         .registry = std::move(metrics),
         .gate = admin_gate_});
  };
  ASSIGN_OR_RETURN(auto runner, WithPrefix("admin_listen", start()));
  runner->SetServing(true);
  ShowOpenListeners(runner->open_listeners());
  return runner;
}

void CoordinatorServer::Follow(Reload& reload, HttpServer* http) {
  AccessGate::Follow(gate_, {}, reload);
  if (admin_gate_) {
    AccessGate::Follow(admin_gate_, {.roles_file = "admin.roles_file"}, reload);
  }
  reload.Add("core.tenants_file", [this] { return tenants_->ReadAgain(); });
  if (http != nullptr) {
    reload.Add("http.keys_file", [http] { return http->ReadAgain(); });
  }
}

void CoordinatorServer::ShowOpenListeners(absl::Span<const std::string> lines) {
  status_->AddOpenListeners(lines);
}

absl::StatusOr<std::unique_ptr<HttpServer>> CoordinatorServer::StartHttp(
    const std::string& listen, const v1::HttpConfig& config,
    std::shared_ptr<prometheus::Registry> metrics) {
  if (listen.empty()) return nullptr;
  ApiContext context = *http_context_;
  context.metrics = std::move(metrics);
  std::vector<http::Page> pages = StatusPages();
  context.pages = {pages[0]};
  context.page_data = {pages[1]};
  context.rounds = [this](const std::string& request_id) {
    return calls_->HidesRounds(/*is_operator=*/false)
               ? std::nullopt
               : status_->OwnRounds(request_id);
  };
  ASSIGN_OR_RETURN(auto server,
                   HttpServer::Start(listen, config, std::move(context)));
  status_->SetHttpAddress(server->address(), server->has_tls());
  status_->AddOpenListeners(server->open_listeners());
  return server;
}

CoordinatorServer::~CoordinatorServer() {
  stopping_.Notify();
  if (sampler_.joinable()) sampler_.join();
  if (reader_.joinable()) reader_.join();
  if (coordinator_ == nullptr) return;
  Notification done;
  coordinator_->Shutdown([&done] { done.Notify(); });
  done.Wait();
}

void CoordinatorServer::Drain(absl::Time deadline, HttpServer* http) {
  // For what is sent after the last request has ended.
  constexpr absl::Duration kGrace = absl::Milliseconds(500);
  const absl::Duration last = std::min(kGrace, (deadline - absl::Now()) / 2);
  if (http != nullptr) http->StopBeingReady();
  // Shared, because the coordinator may become idle after the deadline.
  auto idle = std::make_shared<Notification>();
  coordinator_->Drain([idle] { idle->Notify(); });
  if (!idle->WaitUntil(deadline - last)) {
    // Streams get an error of their own, not the end of their connection.
    coordinator_->Shutdown([] {});
    idle->WaitUntil(deadline);
  }
  if (http != nullptr) http->Drain(std::min(deadline, absl::Now() + kGrace));
}

}  // namespace espalier::coordinator
