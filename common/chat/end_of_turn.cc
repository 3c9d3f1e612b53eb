#include "common/chat/end_of_turn.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/types/span.h"
#include "common/chat/chat_template.h"
#include "common/chat/conversation.h"

namespace espalier {
namespace {

// What the assistant says: nothing that a template has by itself.
constexpr const char* kAnswer = "espaliered pears";

// Returns a conversation with and without a turn after the assistant's: some
// templates end a turn at the next one only, others take no more than one.
std::vector<Conversation> Probes() {
  const std::vector<ChatMessage> once = {
      {.role = "user", .content = "Which?"},
      {.role = "assistant", .content = kAnswer}};
  std::vector<ChatMessage> twice = once;
  twice.push_back({.role = "user", .content = "Why?"});
  return {{.messages = std::move(twice)}, {.messages = once}};
}

bool IsBlank(std::string_view text) {
  for (const char c : text) {
    if (!absl::ascii_isspace(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

// Returns the tokens after the last one that has a part of the answer; empty:
// the answer is not there.
absl::Span<const TokenId> AfterAnswer(const Tokenizer& tokenizer,
                                      absl::Span<const TokenId> ids) {
  std::string text;
  size_t end = 0;  // of the tokens of the last answer
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t before = text.size();
    text += tokenizer.BytesOf(ids[i]);
    const size_t at = text.rfind(kAnswer);
    if (at == std::string::npos) continue;
    if (at + std::string_view(kAnswer).size() > before) end = i + 1;
  }
  return end == 0 ? absl::Span<const TokenId>() : ids.subspan(end);
}

}  // namespace

std::optional<TokenId> EndOfTurn(const Tokenizer& tokenizer) {
  const auto chat_template = NewChatTemplate(&tokenizer);
  if (!chat_template.ok()) return std::nullopt;
  for (const Conversation& probe : Probes()) {
    const absl::StatusOr<std::vector<TokenId>> ids =
        (*chat_template)->Render(probe);
    if (!ids.ok()) continue;
    for (const TokenId id : AfterAnswer(tokenizer, *ids)) {
      if (tokenizer.IsAdded(id)) return id;
      if (!IsBlank(tokenizer.BytesOf(id))) break;
    }
  }
  return std::nullopt;
}

}  // namespace espalier
