#include "common/tokenizer/added_token_matcher.h"

namespace espalier {
namespace {

uint64_t EdgeKey(uint64_t node, char byte) {
  return (node << 8) | static_cast<uint8_t>(byte);
}

}  // namespace

void AddedTokenMatcher::Add(const AddedToken& token) {
  uint64_t node = 0;
  for (char byte : token.content) {
    auto [edge, is_new] =
        children_.try_emplace(EdgeKey(node, byte), ends_.size());
    if (is_new) ends_.push_back(kNoToken);
    node = edge->second;
  }
  ends_[node] = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
  begins_[static_cast<uint8_t>(token.content[0])] = true;
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::Find(
    std::string_view text, size_t from, Accept accept) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<uint8_t>(text[begin])]) continue;
    if (auto match = MatchAt(text, begin, accept)) return match;
  }
  return std::nullopt;
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::MatchAt(
    std::string_view text, size_t begin, Accept accept) const {
  std::optional<Match> longest;
  uint64_t node = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    auto edge = children_.find(EdgeKey(node, text[at]));
    if (edge == children_.end()) break;
    node = edge->second;
    if (ends_[node] == kNoToken) continue;
    const Match match = {
        .token = &tokens_[ends_[node]], .begin = begin, .end = at + 1};
    if (accept(match)) longest = match;
  }
  return longest;
}

}  // namespace espalier
