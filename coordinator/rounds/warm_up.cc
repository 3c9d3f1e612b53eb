#include "coordinator/rounds/warm_up.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"

namespace espalier::coordinator {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(20);
// Drafters that are not there then are not waited for.
constexpr int kMaxPolls = 50;  // after the verifier was there
// Some dozen rounds: fewer where trees are good.
constexpr int64_t kTokens = 24;
constexpr float kTemperature = 1;
// The warm-up's own numbers: a coordinator's tickets count from 1.
constexpr uint64_t kFirstSequence = uint64_t{1} << 63;

std::vector<std::string> NamesOf(const std::vector<DrafterPeer*>& drafters) {
  std::vector<std::string> names;
  for (const DrafterPeer* drafter : drafters) names.push_back(drafter->name);
  return names;
}

}  // namespace

// Nobody reads the text.
class WarmUp::Sink final : public TokenSink {
 public:
  void OnTokens(const OutputPiece&) override {}
  void OnFinish(const absl::Status&, const GenerationReport&) override {}
};

WarmUp::WarmUp(const Environment& environment, Options options)
    : options_(std::move(options)),
      metrics_(registry_, "warm-up", NamesOf(options_.drafters)),
      feature_budget_(FeatureBudget::Limits(), metrics_.features),
      retry_advice_(/*places=*/1, absl::Seconds(1)),
      environment_{.executor = environment.executor,
                   .verifier = environment.verifier,
                   .record = environment.record,
                   .feature_budget = &feature_budget_,
                   .retry_advice = &retry_advice_,
                   .metrics = &metrics_,
                   .journal = &journal_,
                   .draft_timeout = environment.draft_timeout},
      scope_(environment.executor) {
  for (size_t i = 0; i < options_.drafters.size(); ++i) {
    const DrafterPeer& peer = *options_.drafters[i];
    const DrafterMetrics& metrics = metrics_.drafter(static_cast<int>(i));
    constexpr int kTimeoutsToOpen = 1;
    drafters_.emplace_back(
        new DrafterPeer{.name = peer.name,
                        .endpoint = peer.endpoint,
                        .index = peer.index,
                        .info = peer.info,
                        .metrics = &metrics,
                        .health = DrafterHealth(kTimeoutsToOpen, metrics)});
  }
}

WarmUp::~WarmUp() = default;

void WarmUp::Start() { Await(/*attempt=*/0); }

bool WarmUp::DraftersAreKnown() const {
  for (const auto& drafter : drafters_) {
    if (!drafter->info()) return false;
  }
  return true;
}

void WarmUp::Await(int attempt) {
  const bool connected = environment_.verifier->info().has_value();
  if (connected && (DraftersAreKnown() || attempt >= kMaxPolls)) {
    deadline_ = scope_.Now() + options_.limit;
    PlanSessions();
    Next();
    return;
  }
  scope_.PostAt(scope_.Now() + kPoll,
                [this, next = connected ? attempt + 1 : 0] { Await(next); });
}

// Greedy text first, as it is the default. Plain decoding, whose pace is
// measured by rounds that follow each other; each drafter alone, then all,
// whose costs are beyond that pace; plain decoding again, when all are warm.
// What drafts by grammars alone has nothing to draft here.
void WarmUp::PlanSessions() {
  std::vector<int> all;
  for (size_t i = 0; i < drafters_.size(); ++i) {
    const std::optional<DrafterInfo> info = drafters_[i]->info();
    const DrafterRole role = options_.drafters[i]->settings.role;
    if (!info || info->needs_grammar || role != DrafterRole::kActive) continue;
    all.push_back(static_cast<int>(i));
  }
  if (all.empty()) return;
  for (bool greedy : {false, true}) {
    sessions_.push_back({greedy, {}});
    if (all.size() > 1) sessions_.push_back({greedy, all});
    for (auto i = all.rbegin(); i != all.rend(); ++i) {
      sessions_.push_back({greedy, {*i}});
    }
    sessions_.push_back({greedy, {}});
  }
}

void WarmUp::Next() {
  finished_.clear();
  if (ended_) return;
  if (sessions_.empty() || scope_.Now() >= deadline_) return End();
  const Session session = sessions_.back();
  sessions_.pop_back();
  auto opened = Open(session);
  if (!opened.ok()) {
    LogWarning(absl::StrCat("warm-up: ", opened.status().message()));
    return End();
  }
  if (*opened == nullptr) return End();
  running_ = *std::move(opened);
  running_->Run();
}

absl::StatusOr<std::unique_ptr<Generation>> WarmUp::Open(
    const Session& session) {
  GenerationRequest request;
  request.request_id = "warm-up";
  request.prompt = options_.text;
  request.sampling.temperature = session.greedy ? 0 : kTemperature;
  request.max_tokens = kTokens;
  request.ignore_eos = true;
  std::vector<DrafterPeer*> drafters;
  for (int i : session.drafters) {
    request.speculation.drafters.push_back(drafters_[i]->name);
    drafters.push_back(drafters_[i].get());
  }
  ASSIGN_OR_RETURN(RequestPlan plan, options_.plan(std::move(request)));
  if (!plan.adaptive) return nullptr;
  return std::make_unique<Generation>(
      &environment_,
      Generation::Options{
          .output = {.sequence = {.coordinator_epoch = options_.epoch,
                                  .number = kFirstSequence + num_opened_++},
                     .arrival = scope_.Now(),
                     .deadline = deadline_,
                     .plan = std::move(plan),
                     .drafters = std::move(drafters),
                     .explores = true},
          .sink = std::make_shared<Sink>(),
          .on_finished = [this](const absl::Status& status) {
            // The Generation is still on the stack.
            finished_.push_back(std::move(running_));
            if (!status.ok()) sessions_.clear();
            scope_.Post([this] { Next(); });
          }});
}

void WarmUp::Stop() {
  if (ended_) return;
  End();
  if (running_ != nullptr) {
    running_->Finish(absl::CancelledError("a request has come"),
                     FinishReason::kCancelled);
  }
}

void WarmUp::End() {
  ended_ = true;
  std::exchange(options_.on_end, nullptr)();
}

}  // namespace espalier::coordinator
