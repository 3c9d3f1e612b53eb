#include "coordinator/vllm/vllm_answer.h"

#include <utility>

namespace espalier::coordinator {
namespace {

namespace engine = vllm::grpc::engine;

void AddTop(const LogprobRows& rows, int64_t position,
            engine::TopLogProbs& out) {
  const int64_t begin = position * rows.top, end = begin + rows.top;
  for (int64_t i = begin; i < end; ++i) {
    out.add_values(rows.top_logprobs[i]);
    out.add_token_ids(static_cast<uint32_t>(rows.top_tokens[i]));
  }
}

void AddLogprobs(absl::Span<const TokenId> tokens, const LogprobRows& rows,
                 engine::OutputLogProbs& out) {
  for (int64_t i = 0; i < rows.size(); ++i) {
    out.add_token_logprobs(rows.chosen[i]);
    out.add_token_ids(static_cast<uint32_t>(tokens[i]));
    AddTop(rows, i, *out.add_top_logprobs());
  }
}

// The first token has none.
void AddPromptLogprobs(absl::Span<const TokenId> prompt,
                       const LogprobRows& rows, engine::InputLogProbs& out) {
  out.mutable_token_ids()->Add(prompt.begin(), prompt.end());
  out.add_token_logprobs();
  out.add_top_logprobs();
  for (int64_t i = 0; i < rows.size(); ++i) {
    out.add_token_logprobs()->set_value(rows.chosen[i]);
    AddTop(rows, i, *out.add_top_logprobs());
  }
}

const char* NameOf(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

}  // namespace

void VllmAnswer::Add(const OutputPiece& piece) {
  if (!piece.prompt.empty()) {
    num_prompt_tokens_ = static_cast<uint32_t>(piece.prompt.size());
  }
  Chunk& chunk = chunks_[piece.output];
  chunk.set_index(static_cast<uint32_t>(piece.output));
  chunk.set_prompt_tokens(num_prompt_tokens_);
  chunk.set_cached_tokens(static_cast<uint32_t>(piece.cached_tokens));
  chunk.mutable_token_ids()->Add(piece.tokens.begin(), piece.tokens.end());
  chunk.set_completion_tokens(static_cast<uint32_t>(chunk.token_ids_size()));
  if (piece.logprobs.size() > 0) {
    AddLogprobs(piece.tokens, piece.logprobs, *chunk.mutable_output_logprobs());
  }
  if (piece.prompt_logprobs.size() > 0) {
    AddPromptLogprobs(piece.prompt, piece.prompt_logprobs,
                      *chunk.mutable_input_logprobs());
  }
}

// A failed call has no `complete`.
void VllmAnswer::End(const absl::Status& status,
                     const GenerationReport& report) {
  if (!status.ok()) return;
  Complete& out = completes_.emplace_back();
  out.set_index(static_cast<uint32_t>(report.output));
  out.set_finish_reason(NameOf(report.finish_reason));
  out.set_prompt_tokens(static_cast<uint32_t>(report.usage.prompt_tokens));
  out.set_cached_tokens(static_cast<uint32_t>(report.usage.cached_tokens));
  if (report.matched_stop_token) {
    out.set_matched_token_id(static_cast<uint32_t>(*report.matched_stop_token));
  } else if (report.matched_stop_string) {
    out.set_matched_stop_str(*report.matched_stop_string);
  }
  out.set_spec_accepted_tokens(
      static_cast<uint32_t>(report.spec.num_accepted_draft_tokens));
  out.set_spec_draft_tokens(
      static_cast<uint32_t>(report.spec.num_draft_tokens));
  if (stream_) return;  // its tokens were in chunks
  Chunk& all = chunks_[report.output];
  *out.mutable_output_ids() = std::move(*all.mutable_token_ids());
  out.set_completion_tokens(all.completion_tokens());
  if (all.has_output_logprobs()) {
    *out.mutable_output_logprobs() = std::move(*all.mutable_output_logprobs());
  }
  if (all.has_input_logprobs()) {
    *out.mutable_input_logprobs() = std::move(*all.mutable_input_logprobs());
  }
  chunks_.erase(report.output);
}

// The tokens of an output come before its end, as they are taken first.
std::optional<std::string> VllmAnswer::Take() {
  engine::GenerateResponse response;
  if (stream_ && !chunks_.empty()) {
    *response.mutable_chunk() = std::move(chunks_.begin()->second);
    chunks_.erase(chunks_.begin());
  } else if (!completes_.empty()) {
    *response.mutable_complete() = std::move(completes_.front());
    completes_.pop_front();
  } else {
    return std::nullopt;
  }
  return response.SerializeAsString();
}

size_t VllmAnswer::NumBytes() const {
  size_t bytes = 0;
  for (const auto& [output, chunk] : chunks_) bytes += chunk.ByteSizeLong();
  for (const Complete& complete : completes_) bytes += complete.ByteSizeLong();
  return bytes;
}

}  // namespace espalier::coordinator
