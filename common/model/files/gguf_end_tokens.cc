#include "common/model/files/gguf_end_tokens.h"

#include <cstddef>

#include "absl/algorithm/container.h"

namespace espalier {
namespace {

constexpr std::string_view kPartEnd = "<|end|>";
constexpr std::string_view kEndTokens[] = {
    // ChatML, Llama 3, Phi, Gemma, and other families' turns
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", kPartEnd, "<end_of_turn>",
    "<turn|>", "<end_of_utterance>", "<EOT>", "_<EOT>", "[EOT]", "[e~[",
    // texts
    "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[EOS]",
    "<｜end▁of▁sentence｜>",
    // what a model hands over to a tool or to its user
    "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<|tool_response>"};

}  // namespace

bool IsGgufEndToken(std::string_view token) {
  return absl::c_linear_search(kEndTokens, token);
}

std::vector<TokenId> FindGgufEndTokens(
    absl::Span<const std::string_view> tokens) {
  const auto has = [&](std::string_view token) {
    return absl::c_linear_search(tokens, token);
  };
  const bool has_parts = (has("<|return|>") && has("<|call|>")) ||
                         (has("<|flush|>") && has("<|calls|>"));
  std::vector<TokenId> ids;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!IsGgufEndToken(tokens[i])) continue;
    if (has_parts && tokens[i] == kPartEnd) continue;
    ids.push_back(static_cast<TokenId>(i));
  }
  return ids;
}

}  // namespace espalier
