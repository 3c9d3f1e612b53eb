#ifndef ESPALIER_COORDINATOR_API_GENERATE_ANSWER_H_
#define ESPALIER_COORDINATOR_API_GENERATE_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/tokenizer/tokenizer.h"
#include "coordinator/api/answer_format.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// An answer in messages of espalier.v1.Inference: one per output that has
// something new, the output that waits longest first.
class GenerateAnswer final : public AnswerFormat {
 public:
  struct Options {
    std::string request_id;
    uint64_t seed = 0;  // of output 0
    bool echo = false;
    const Tokenizer* tokenizer = nullptr;
  };
  explicit GenerateAnswer(Options options) : options_(std::move(options)) {}

  void Add(const OutputPiece& piece) override;
  void End(const absl::Status& status, const GenerationReport& report) override;
  std::optional<std::string> Take() override;
  // As Take, not serialized.
  std::optional<v1::GenerateResponse> TakeMessage();
  size_t NumBytes() const override;

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
