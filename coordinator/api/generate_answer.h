#ifndef ESPALIER_COORDINATOR_API_GENERATE_ANSWER_H_
#define ESPALIER_COORDINATOR_API_GENERATE_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/tokenizer/tokenizer.h"
#include "coordinator/session/request.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// An answer in messages of espalier.v1.Inference: one per output that has
// something new, the output that waits longest first. Collects what the outputs
// emit until it is taken, so that a slow reader costs no more memory than its
// own answer. Not thread-safe.
class GenerateAnswer {
 public:
  struct Options {
    std::string request_id;
    uint64_t seed = 0;  // of output 0
    bool echo = false;
    bool hides_rounds = false;  // leaves out what tells how drafts fitted
    const Tokenizer* tokenizer = nullptr;
  };
  explicit GenerateAnswer(Options options) : options_(std::move(options)) {}

  void Add(const OutputPiece& piece);
  // An output ends; no piece of it follows.
  void End(const absl::Status& status, const GenerationReport& report);
  // The next message; nullopt: nothing is to be sent now.
  std::optional<v1::GenerateResponse> Take();
  // Size of what Take has still to return.
  size_t NumBytes() const;

 private:
  v1::GenerateResponse& Of(int64_t output);
  uint64_t SeedOf(int64_t output) const {
    return options_.seed + static_cast<uint64_t>(output);
  }
  void Fill(TokenId token, float logprob, v1::TokenLogprob& out) const;
  void Fill(
      absl::Span<const TokenId> tokens, const LogprobRows& rows,
      google::protobuf::RepeatedPtrField<v1::PositionLogprobs>& out) const;
  void AddPrompt(const OutputPiece& piece, v1::GenerateResponse& out) const;

  const Options options_;
  std::deque<v1::GenerateResponse> next_;  // at most one of each output
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_GENERATE_ANSWER_H_
