// A coordinator's messages to the verifier, up to the engine and its rules,
// with a model without a network.
#include "common/base/check.h"
#include "common/rpc/convert.h"
#include "common/rpc/peer_service.h"
#include "tests/fuzz/delimited.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/sample_tree.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::testing {
namespace verify_stream_fuzz {

v1::VerifyRequest Message(const VerifyRequest& request) {
  v1::VerifyRequest message;
  *message.mutable_verify() = ToProto(request, absl::Seconds(1));
  return message;
}

VerifyRequest First(const std::string& rule, float temperature) {
  const verifier::Client client = {.id = {.number = 1}, .text = {5, 6, 7}};
  VerifyRequest request = client.Request(SampleTree(7));
  request.update.sampling.temperature = temperature;
  request.rule = rule;
  request.features = {.taps = {0, 2}};
  return request;
}

// Returns a round, the same again, a round that follows no answer, and the end.
std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const char* rule : {"auto", "walk", "trv", "tv-rrs"}) {
    const VerifyRequest first = First(rule, 1);
    VerifyRequest next = first;
    next.update.round = 2;
    next.update.base_length = 3;
    next.update.prefix_hash = PrefixHash({5, 6, 7});
    next.update.new_tokens = {8};
    next.tree = TokenTree::RootOnly(8);
    v1::VerifyRequest end;
    *end.mutable_end_sequence() = ToProto(first.update.sequence);
    seeds.push_back(Delimited<v1::VerifyRequest>(
        {Message(first), Message(first), Message(next), end}));
    seeds.push_back(Delimited<v1::VerifyRequest>({Message(First(rule, 0))}));
  }
  return seeds;
}

bool Try(std::string_view bytes) {
  std::vector<std::shared_ptr<verifier::Reply>> replies;
  {
    verifier::EngineHarness harness;
    const VerifierInfo info = harness.engine->info();
    for (const auto& message : ReadDelimited<v1::VerifyRequest>(bytes)) {
      if (message.has_end_sequence()) {
        harness.engine->EndSequence(FromProto(message.end_sequence()));
      } else {
        auto request = ReadVerify(message.verify(), info);
        if (request.ok()) replies.push_back(harness.Send(*std::move(request)));
      }
      harness.executor->RunUntilIdle();
    }
  }
  for (const auto& reply : replies) ESPALIER_CHECK(reply->times_answered == 1);
  return !replies.empty();
}

}  // namespace verify_stream_fuzz

FuzzTarget VerifyStreamTarget() {
  return {"verify_stream", verify_stream_fuzz::Seeds, verify_stream_fuzz::Try};
}

}  // namespace espalier::testing
