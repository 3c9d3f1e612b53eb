#include "common/chat/jinja/text_operations.h"

#include <algorithm>

#include "common/chat/jinja/error.h"
#include "common/chat/jinja/operators.h"

namespace espalier::jinja {
namespace {

std::vector<CharactersView> SplitSpaces(CharactersView text, Int most) {
  std::vector<CharactersView> parts;
  size_t at = 0;
  for (;;) {
    while (at < text.size() && IsSpace(text[at])) ++at;
    if (at == text.size()) return parts;
    if (most >= 0 && static_cast<Int>(parts.size()) == most) {
      size_t end = text.size();
      while (IsSpace(text[end - 1])) --end;
      parts.push_back(text.substr(at, end - at));
      return parts;
    }
    const size_t begin = at;
    while (at < text.size() && !IsSpace(text[at])) ++at;
    parts.push_back(text.substr(begin, at - begin));
  }
}

std::vector<CharactersView> SplitSpacesFromRight(CharactersView text,
                                                 Int most) {
  std::vector<CharactersView> parts;
  size_t end = text.size();
  for (;;) {
    while (end > 0 && IsSpace(text[end - 1])) --end;
    if (end == 0) break;
    if (most >= 0 && static_cast<Int>(parts.size()) == most) {
      size_t begin = 0;
      while (IsSpace(text[begin])) ++begin;
      parts.push_back(text.substr(begin, end - begin));
      break;
    }
    size_t begin = end;
    while (begin > 0 && !IsSpace(text[begin - 1])) --begin;
    parts.push_back(text.substr(begin, end - begin));
    end = begin;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

CharactersView Strip(CharactersView text,
                     const std::optional<Characters>& characters, Sides sides) {
  const auto strips = [&](char32_t c) {
    if (!characters.has_value()) return IsSpace(c);
    return std::any_of(characters->begin(), characters->end(),
                       [c](char32_t other) { return Bare(other) == Bare(c); });
  };
  if (sides.left) {
    while (!text.empty() && strips(text.front())) text.remove_prefix(1);
  }
  if (sides.right) {
    while (!text.empty() && strips(text.back())) text.remove_suffix(1);
  }
  return text;
}

Characters Replace(Interpreter& interpreter, CharactersView text,
                   CharactersView old, CharactersView replacement, Int most) {
  Characters out;
  size_t at = 0;
  const auto put = [&](CharactersView part) {
    interpreter.budget().SpendCharacters(part.size());
    out.append(part);
  };
  for (Int done = 0; most < 0 || done < most; ++done) {
    if (old.empty()) {
      // Before each character, and at the end.
      put(replacement);
      if (at == text.size()) return out;
      put(text.substr(at++, 1));
      continue;
    }
    const size_t found = Find(interpreter, text, old, at);
    if (found == kNowhere) break;
    put(text.substr(at, found - at));
    put(replacement);
    at = found + old.size();
  }
  put(text.substr(at));
  return out;
}

std::vector<CharactersView> Split(Interpreter& interpreter, CharactersView text,
                                  const std::optional<Characters>& separator,
                                  Int most) {
  interpreter.budget().SpendCharacters(text.size());
  if (!separator.has_value()) return SplitSpaces(text, most);
  if (separator->empty()) throw Error("empty separator");
  std::vector<CharactersView> parts;
  size_t at = 0;
  while (most < 0 || static_cast<Int>(parts.size()) < most) {
    const size_t found = Find(interpreter, text, *separator, at);
    if (found == kNowhere) break;
    interpreter.budget().SpendValue();
    parts.push_back(text.substr(at, found - at));
    at = found + separator->size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

std::vector<CharactersView> SplitFromRight(
    Interpreter& interpreter, CharactersView text,
    const std::optional<Characters>& separator, Int most) {
  interpreter.budget().SpendCharacters(text.size());
  if (!separator.has_value()) return SplitSpacesFromRight(text, most);
  if (separator->empty()) throw Error("empty separator");
  std::vector<CharactersView> parts;
  size_t end = text.size();
  while (most < 0 || static_cast<Int>(parts.size()) < most) {
    const size_t found = FindLast(interpreter, text, *separator, end);
    if (found == kNowhere) break;
    interpreter.budget().SpendValue();
    const size_t begin = found + separator->size();
    parts.push_back(text.substr(begin, end - begin));
    end = found;
  }
  parts.push_back(text.substr(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<CharactersView> SplitLines(CharactersView text, bool keep_ends) {
  std::vector<CharactersView> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && !IsLineBreak(text[end])) ++end;
    size_t next = end;
    if (next < text.size()) {
      const bool two = Bare(text[next]) == U'\r' && next + 1 < text.size() &&
                       Bare(text[next + 1]) == U'\n';
      next += two ? 2 : 1;
    }
    lines.push_back(text.substr(at, (keep_ends ? next : end) - at));
    at = next;
  }
  return lines;
}

Characters Center(Interpreter& interpreter, CharactersView text, Int width,
                  char32_t fill) {
  const auto size = static_cast<Int>(text.size());
  if (width <= size) return Characters(text);
  const Int missing = width - size;
  const Int left = missing / 2 + (missing & width & 1);
  constexpr Int kMax = Int{1} << 40;
  interpreter.budget().SpendCharacters(
      static_cast<size_t>(std::min(width, kMax)));
  Characters out(static_cast<size_t>(left), fill);
  out.append(text);
  out.append(static_cast<size_t>(missing - left), fill);
  return out;
}

}  // namespace espalier::jinja
