#include "common/chat/guarded_text.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

// Code points that Unicode keeps free of characters.
constexpr char32_t kFirstMark = 0xFDD0;
constexpr char32_t kLastMark = 0xFDEF;

// Calls `edit` for each text and key. Documents of ParseJson nest no deeper
// than 64.
void ForEachText(Json& json, absl::FunctionRef<void(std::string&)> edit) {
  if (json.is_string()) {
    edit(json.get_ref<std::string&>());
  } else if (json.is_array()) {
    for (Json& item : json) ForEachText(item, edit);
  } else if (json.is_object()) {
    Json edited = Json::object();
    for (auto& [key, member] : json.items()) {
      std::string name = key;
      edit(name);
      ForEachText(member, edit);
      edited[name] = std::move(member);
    }
    json = std::move(edited);
  }
}

void BreakSpecial(const Tokenizer& tokenizer, const std::string& mark,
                  std::string& text) {
  for (auto found = tokenizer.FindSpecial(text, 0); found.has_value();
       found = tokenizer.FindSpecial(text, found->begin + 1)) {
    text.insert(found->begin + CharacterSize(text, found->begin), mark);
  }
}

// Adds a range; joins it with the last one where they touch.
void AddRange(size_t begin, size_t end, std::vector<ByteRange>& ranges) {
  if (begin >= end) return;
  if (!ranges.empty() && begin <= ranges.back().end) {
    ranges.back().end = std::max(ranges.back().end, end);
  } else {
    ranges.push_back({.begin = begin, .end = end});
  }
}

}  // namespace

absl::StatusOr<SpecialTextGuard> SpecialTextGuard::Break(
    const Tokenizer& tokenizer, Json& input) {
  bool spelled = false;
  ForEachText(input, [&](std::string& text) {
    spelled = spelled || tokenizer.FindSpecial(text, 0).has_value();
  });
  SpecialTextGuard guard;
  if (!spelled) return guard;
  for (char32_t c = kFirstMark; c <= kLastMark; ++c) {
    std::string mark;
    AppendUtf8(c, mark);
    const std::string escaped = absl::StrCat("\\u", absl::Hex(uint32_t{c}));
    bool taken = false;
    ForEachText(input, [&](std::string& text) {
      taken = taken || text.find(mark) != std::string::npos ||
              text.find(escaped) != std::string::npos;
    });
    if (taken) continue;
    guard.mark_ = mark;
    guard.escaped_mark_ = escaped;
    ForEachText(input, [&](std::string& text) {
      BreakSpecial(tokenizer, guard.mark_, text);
    });
    return guard;
  }
  return absl::ResourceExhaustedError(
      "it has special tokens and every noncharacter from U+FDD0 to U+FDEF");
}

SpecialTextGuard::Text SpecialTextGuard::Join(
    absl::Span<const JinjaProgram::Piece> pieces) const {
  Text joined;
  std::string& text = joined.text;
  for (const JinjaProgram::Piece& piece : pieces) {
    const std::string valid = RepairUtf8(piece.text);
    const size_t begin = text.size();
    for (size_t at = 0; at < valid.size();) {
      const bool is_mark =
          !mark_.empty() && valid.compare(at, mark_.size(), mark_) == 0;
      const bool is_escaped =
          !mark_.empty() &&
          valid.compare(at, escaped_mark_.size(), escaped_mark_) == 0;
      if (!is_mark && !is_escaped) {
        text.push_back(valid[at++]);
        continue;
      }
      at += is_mark ? mark_.size() : escaped_mark_.size();
      if (piece.is_input) continue;
      // The bytes beside it: the spelled token has both.
      const size_t before = text.size() - (text.empty() ? 0 : 1);
      AddRange(before, text.size() + 1, joined.plain);
    }
    if (piece.is_input) AddRange(begin, text.size(), joined.plain);
  }
  return joined;
}

}  // namespace espalier
