// A coordinator's messages to a drafter, up to the engine, with the drafter
// `prompt_lookup`.
#include <memory>

#include "common/base/check.h"
#include "common/rpc/convert.h"
#include "common/rpc/feature_chunks.h"
#include "common/rpc/peer_service.h"
#include "common/speculation/prefix_hash.h"
#include "drafter/drafters.h"
#include "drafter/engine/draft_engine.h"
#include "drafter/engine/host_feature_store.h"
#include "prometheus/registry.h"
#include "tests/fuzz/delimited.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/testing/fake_executor.h"

namespace espalier::testing {
namespace draft_stream_fuzz {

constexpr int64_t kVocabSize = 40, kMaxNodes = 32, kMaxDepth = 8;

DrafterInfo Info() {
  return {.name = "lookup",
          .type = "prompt_lookup",
          .model = {.name = "tiny", .vocab_size = kVocabSize},
          .max_nodes = kMaxNodes,
          .max_depth = kMaxDepth,
          .supports_lookahead = true};
}

// `prompt_lookup`, with features that nobody reads, and ranks from which
// `recycle` learns.
class LookupWithFeatures final : public drafter::Drafter {
 public:
  LookupWithFeatures(std::unique_ptr<Drafter> lookup,
                     std::unique_ptr<Drafter> recycle)
      : lookup_(std::move(lookup)), recycle_(std::move(recycle)) {}

  drafter::FeatureStore* features() override { return &features_; }
  bool supports_lookahead() const override {
    return lookup_->supports_lookahead();
  }
  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const drafter::SequenceView> batch) override {
    ESPALIER_CHECK(recycle_->Draft(batch).ok());
    return lookup_->Draft(batch);
  }
  void Forget(SequenceId id) override { lookup_->Forget(id); }

 private:
  const std::unique_ptr<Drafter> lookup_, recycle_;
  drafter::HostFeatureStore features_{{.taps = {1}, .hidden_size = 2}};
};

std::unique_ptr<drafter::DraftEngine> NewEngine(
    std::unique_ptr<Executor> executor) {
  static prometheus::Registry registry;
  static const drafter::DrafterMetrics metrics =
      drafter::MakeDrafterMetrics(registry, "lookup");
  auto lookup = drafter::NewPromptLookupDrafter({.vocab_size = kVocabSize});
  auto recycle = drafter::NewRecycleDrafter({.vocab_size = kVocabSize});
  ESPALIER_CHECK(lookup.ok() && recycle.ok());
  return std::make_unique<drafter::DraftEngine>(
      drafter::DraftEngine::Options{
          .name = "lookup",
          .vocab_size = kVocabSize,
          .max_nodes = kMaxNodes,
          .max_depth = kMaxDepth,
          .supports_lookahead = true,
          .store = {.max_sequences = 3, .max_tokens = 200}},
      std::make_unique<LookupWithFeatures>(*std::move(lookup),
                                           *std::move(recycle)),
      std::move(executor), metrics);
}

v1::DraftRequest Message(const ProposeRequest& request) {
  v1::DraftRequest message;
  *message.mutable_propose() = ToProto(request, absl::Seconds(1));
  return message;
}

// Features and a round, the next round with lookahead, and the end.
std::vector<std::string> Seeds() {
  ProposeRequest request = {.update = {.sequence = {.number = 1},
                                       .round = 1,
                                       .prefix_hash = kEmptyPrefixHash,
                                       .new_tokens = {5, 6, 7, 8, 5, 6, 7}},
                            .budget = {.max_nodes = 8, .max_depth = 4}};
  const FeatureRows features = {
      .first_position = 0, .width = 2, .data = std::vector<uint16_t>(8, 1)};
  std::vector<v1::DraftRequest> messages = ToParts<v1::DraftRequest>(features);
  messages.push_back(Message(request));
  request.update.round = 2;
  request.update.prefix_hash = PrefixHash(request.update.new_tokens);
  request.update.base_length = 7;
  request.update.new_tokens = {8};
  request.ranks = {.top = 2,
                   .contexts = {6, 7, 7, 8},
                   .tokens = {8, 5, 5, 6},
                   .log_probs = {-0.5f, -1, -0.25f, -2}};
  request.lookahead = {5, 6};
  request.stored.ring.id = 9;
  request.stored.ring.data_bytes = 1024;
  request.stored.segments = {{4, 2, 256}, {6, 1, 512}};
  messages.push_back(Message(request));
  *messages.emplace_back().mutable_end_sequence() =
      ToProto(request.update.sequence);
  return {Delimited(messages)};
}

bool Try(std::string_view bytes) {
  int asked = 0, answered = 0;
  {
    auto owned = std::make_unique<FakeExecutor>();
    FakeExecutor& executor = *owned;
    const auto engine = NewEngine(std::move(owned));
    std::vector<v1::DraftRequest> parts;
    for (const auto& message : ReadDelimited<v1::DraftRequest>(bytes)) {
      if (message.has_end_sequence()) {
        engine->EndSequence(FromProto(message.end_sequence()));
      } else if (message.has_features()) {
        parts.push_back(message);
      } else if (auto request = ReadPropose(message.propose(), parts, Info());
                 request.ok()) {
        ++asked;
        engine->Propose(
            *std::move(request), absl::InfiniteFuture(), [](const Proposal&) {},
            [&](const absl::StatusOr<Proposal>& proposal) {
              ++answered;
              if (!proposal.ok()) return;
              ESPALIER_CHECK(proposal->tree
                                 .Validate({.max_nodes = kMaxNodes,
                                            .max_depth = kMaxDepth,
                                            .vocab_size = kVocabSize})
                                 .ok());
            });
        parts.clear();
      }
      executor.RunUntilIdle();
    }
  }
  ESPALIER_CHECK(answered == asked);
  return asked > 0;
}

}  // namespace draft_stream_fuzz

FuzzTarget DraftStreamTarget() {
  return {"draft_stream", draft_stream_fuzz::Seeds, draft_stream_fuzz::Try};
}

}  // namespace espalier::testing
