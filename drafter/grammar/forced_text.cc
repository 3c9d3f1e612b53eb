#include "drafter/grammar/forced_text.h"

#include <algorithm>
#include <string_view>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"

namespace espalier::drafter {
namespace {

constexpr std::string_view kBlanks = " \n\t\r";

bool IsBlank(char c) { return kBlanks.find(c) != std::string_view::npos; }

// Returns the white space that follows the last character of `text` where that
// came before; after a colon or a comma that is new, one space.
std::string BlanksAfterLast(std::string_view text) {
  if (text.empty() || IsBlank(text.back())) return "";
  const char last = text.back();
  const size_t before = text.size() < 2 ? std::string_view::npos
                                        : text.rfind(last, text.size() - 2);
  if (before == std::string_view::npos) {
    return last == ':' || last == ',' ? " " : "";
  }
  const size_t end =
      std::min(text.find_first_not_of(kBlanks, before + 1), text.size());
  return std::string(text.substr(before + 1, end - before - 1));
}

}  // namespace

ForcedTextFinder::ForcedTextFinder(const grammar::Vocabulary& vocabulary)
    : end_tokens_(vocabulary.end_tokens) {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& token = vocabulary.tokens[id];
    if (token.size() != 1) continue;
    byte_tokens_[static_cast<uint8_t>(token[0])] = static_cast<TokenId>(id);
  }
}

absl::StatusOr<ForcedText> ForcedTextFinder::After(
    absl::Span<const TokenId> output, std::string written, const Limits& limits,
    grammar::Matcher& matcher) const {
  const absl::Time give_up = absl::Now() + limits.time;
  std::vector<TokenId> text(output.begin(), output.end());
  ForcedText forced;
  const auto append = [&](char byte) {
    text.push_back(*byte_tokens_[static_cast<uint8_t>(byte)]);
    forced.bytes += byte;
    written += byte;
  };
  while (forced.bytes.size() < limits.bytes && absl::Now() < give_up) {
    RETURN_IF_ERROR(matcher.Follow(text));
    ASSIGN_OR_RETURN(const grammar::TokenMasks mask,
                     matcher.MasksOf(TokenTree::RootOnly(0), limits.time));
    std::string blanks, others;
    for (int byte = 0; byte < 256; ++byte) {
      const auto& token = byte_tokens_[byte];
      if (!token || !mask.Allows(0, *token)) continue;
      const char c = static_cast<char>(byte);
      (IsBlank(c) ? blanks : others) += c;
    }
    const bool may_end =
        std::any_of(end_tokens_.begin(), end_tokens_.end(),
                    [&](TokenId token) { return mask.Allows(0, token); });
    forced.at_end = may_end && blanks.empty() && others.empty();
    if (may_end) break;
    if (others.empty() && blanks.size() == 1) {
      append(blanks[0]);
    } else if (others.size() == 1) {
      if (!blanks.empty()) {
        const std::string between = BlanksAfterLast(written);
        const bool allowed = std::all_of(
            between.begin(), between.end(),
            [&](char c) { return blanks.find(c) != std::string::npos; });
        if (allowed) std::for_each(between.begin(), between.end(), append);
      }
      append(others[0]);
    } else {
      break;
    }
  }
  return forced;
}

}  // namespace espalier::drafter
