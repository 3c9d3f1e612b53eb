#include "coordinator/api/generate_answer.h"

#include <algorithm>
#include <utility>

#include "coordinator/api/generate_summary.h"

namespace espalier::coordinator {

v1::GenerateResponse& GenerateAnswer::Of(int64_t output) {
  const auto found = std::find_if(
      next_.begin(), next_.end(),
      [output](const v1::GenerateResponse& r) { return r.index() == output; });
  if (found != next_.end()) return *found;
  v1::GenerateResponse& response = next_.emplace_back();
  response.set_request_id(options_.request_id);
  response.set_index(static_cast<uint32_t>(output));
  return response;
}

void GenerateAnswer::Fill(TokenId token, float logprob,
                          v1::TokenLogprob& out) const {
  out.set_token_id(static_cast<uint32_t>(token));
  out.set_logprob(logprob);
  out.set_token(std::string(options_.tokenizer->BytesOf(token)));
}

void GenerateAnswer::Fill(
    absl::Span<const TokenId> tokens, const LogprobRows& rows,
    google::protobuf::RepeatedPtrField<v1::PositionLogprobs>& out) const {
  for (int64_t i = 0; i < rows.size(); ++i) {
    v1::PositionLogprobs& position = *out.Add();
    Fill(tokens[i], rows.chosen[i], *position.mutable_chosen());
    for (int64_t j = i * rows.top; j < (i + 1) * rows.top; ++j) {
      Fill(rows.top_tokens[j], rows.top_logprobs[j], *position.add_top());
    }
  }
}

void GenerateAnswer::AddPrompt(const OutputPiece& piece,
                               v1::GenerateResponse& out) const {
  if (options_.echo) {
    v1::ReturnedPrompt& prompt = *out.mutable_prompt();
    prompt.mutable_token_ids()->Add(piece.prompt.begin(), piece.prompt.end());
    prompt.set_text(
        options_.tokenizer->Decode(piece.prompt, /*skip_special=*/false));
  }
  if (piece.prompt_logprobs.size() > 0) {
    Fill(piece.prompt.subspan(1), piece.prompt_logprobs,
         *out.mutable_prompt()->mutable_logprobs());
  }
}

void GenerateAnswer::Add(const OutputPiece& piece) {
  v1::GenerateResponse& next = Of(piece.output);
  next.set_step(static_cast<uint32_t>(piece.step.step));
  next.set_cached_tokens(static_cast<uint32_t>(piece.cached_tokens));
  next.mutable_token_ids()->Add(piece.tokens.begin(), piece.tokens.end());
  next.mutable_text()->append(piece.text.data(), piece.text.size());
  Fill(piece.tokens, piece.logprobs, *next.mutable_logprobs());
  if (piece.step.step == 1) {
    next.set_seed(SeedOf(piece.output));
    next.set_origin(piece.origin);
  }
  if (!piece.prompt.empty()) AddPrompt(piece, next);
}

// The text that was held back comes with an error, too, as all its tokens were
// emitted; but not where the client may resume, which begins with that text.
void GenerateAnswer::End(const absl::Status& status,
                         const GenerationReport& report) {
  const bool resumable = absl::IsUnavailable(status);
  if (!status.ok() && (resumable || report.last_text.empty())) return;
  v1::GenerateResponse& next = Of(report.output);
  next.mutable_text()->append(report.last_text);
  if (!status.ok()) return;
  *next.mutable_summary() = Summarise(report, SeedOf(report.output));
  if (options_.hides_rounds) HideRounds(*next.mutable_summary());
}

std::optional<v1::GenerateResponse> GenerateAnswer::Take() {
  if (next_.empty()) return std::nullopt;
  v1::GenerateResponse message = std::move(next_.front());
  next_.pop_front();
  return message;
}

size_t GenerateAnswer::NumBytes() const {
  size_t bytes = 0;
  for (const v1::GenerateResponse& response : next_) {
    bytes += response.ByteSizeLong();
  }
  return bytes;
}

}  // namespace espalier::coordinator
