// Answers of drafters and of the verifier, as the coordinator reads them.
#include "common/base/check.h"
#include "common/rpc/convert.h"
#include "common/rpc/feature_chunks.h"
#include "common/rpc/status_convert.h"
#include "coordinator/peers/verifier_link.h"
#include "tests/fuzz/delimited.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/sample_tree.h"

namespace espalier::testing {
namespace peer_answer_fuzz {

constexpr int64_t kVocabSize = 40;

// Returns whether the message is one that the coordinator uses.
bool Read(const v1::DraftResponse& message) {
  if (message.has_hello()) return FromProto(message.hello()).ok();
  if (message.has_failure()) {
    ESPALIER_CHECK(!FromFailure(message.failure()).ok());
    return true;
  }
  const auto proposal = FromProto(message.proposal());
  return proposal.ok() &&
         proposal->tree
             .Validate(
                 {.max_nodes = 64, .max_depth = 16, .vocab_size = kVocabSize})
             .ok();
}

bool Read(const v1::VerifyResponse& message, FeatureRows& features) {
  if (message.has_hello()) return FromProto(message.hello()).ok();
  if (message.has_features())
    return AddChunk(message.features(), features).ok();
  const auto result = FromProto(message.verify_result());
  const TokenTree tree = SampleTree(3);
  if (!result.ok() ||
      !coordinator::CheckVerifyResult(*result, 1, tree, kVocabSize).ok()) {
    return false;
  }
  ESPALIER_CHECK(result->tokens.size() == result->path.size() + 1);
  for (const auto& segments : result->stored.contracts) {
    ESPALIER_CHECK(AreConsecutive(segments));
  }
  for (TokenId token : result->tokens) {
    ESPALIER_CHECK(token >= 0 && token < kVocabSize);
  }
  return true;
}

std::vector<std::string> Seeds() {
  v1::DraftResponse proposal, drafter, failure;
  *proposal.mutable_proposal() = ToProto(Proposal{.round = 1,
                                                  .committed_length = 3,
                                                  .tree = SampleTree(3),
                                                  .compute_time = {},
                                                  .lacks_features = true});
  *drafter.mutable_hello() =
      ToProto(DrafterInfo{.name = "chat",
                          .type = "eagle",
                          .model = {.name = "tiny", .vocab_size = kVocabSize},
                          .max_nodes = 64,
                          .max_depth = 8});
  *failure.mutable_failure() = ToFailure(absl::InternalError("broken"));
  v1::VerifyResponse result, verifier;
  VerifyResult decided;
  decided.round = 1;
  decided.path = {1, 3};
  decided.tokens = {10, 4, 7};
  decided.rule = "walk";
  decided.stored.ring_id = 9;
  decided.stored.contracts = {{{0, 3, 256}, {3, 1, 512}}, {{1, 3, 0}}};
  *result.mutable_verify_result() = ToProto(decided);
  VerifierInfo info;
  info.model = {.name = "tiny", .vocab_size = kVocabSize};
  info.max_context = 100;
  info.max_tree_nodes = 32;
  info.rules = {"walk"};
  info.ring.id = 9;
  info.ring.device_id = 5;
  info.ring.data_bytes = 1024;
  info.ring.handle = "1/5";
  info.device = "cpu";
  info.pass_costs = {{1, absl::Milliseconds(5)}, {8, absl::Milliseconds(7)}};
  *verifier.mutable_hello() = ToProto(info);
  std::vector<v1::VerifyResponse> answers = ToParts<v1::VerifyResponse>(
      {.first_position = 0, .width = 2, .data = std::vector<uint16_t>(8, 1)});
  answers.push_back(result);
  answers.push_back(verifier);
  return {Delimited<v1::DraftResponse>({drafter, proposal, failure}),
          Delimited(answers)};
}

// Reads the bytes as answers of a drafter, and as answers of a verifier.
bool Try(std::string_view bytes) {
  bool accepted = false;
  for (const auto& message : ReadDelimited<v1::DraftResponse>(bytes)) {
    accepted |= Read(message);
  }
  FeatureRows features;
  for (const auto& message : ReadDelimited<v1::VerifyResponse>(bytes)) {
    accepted |= Read(message, features);
  }
  return accepted;
}

}  // namespace peer_answer_fuzz

FuzzTarget PeerAnswerTarget() {
  return {"peer_answer", peer_answer_fuzz::Seeds, peer_answer_fuzz::Try};
}

}  // namespace espalier::testing
