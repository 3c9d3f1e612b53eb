// The methods of str.
#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/arguments.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/format.h"
#include "common/chat/jinja/markup.h"
#include "common/chat/jinja/members.h"
#include "common/chat/jinja/operators.h"
#include "common/chat/jinja/print.h"
#include "common/chat/jinja/text_operations.h"

namespace espalier::jinja {
namespace {

Value Like(Interpreter& in, const Value& self, Characters text) {
  return MakeText(in.budget(), std::move(text), self.IsMarkup());
}

Value ListOf(Interpreter& in, const Value& self,
             const std::vector<CharactersView>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (CharactersView part : parts) {
    items.push_back(Like(in, self, Characters(part)));
  }
  return MakeList(in.budget(), std::move(items));
}

// Returns an argument that is a text or None.
std::optional<Characters> TextOrNone(const Arguments& arguments, size_t index) {
  if (arguments.FindSome(index) == nullptr) return std::nullopt;
  return arguments.TextAt(index);
}

template <Characters (*kMap)(CharactersView)>
Value Mapped(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("str method", "", std::move(given));
  return Like(in, self, kMap(self.characters()));
}

// Returns whether all characters are of a class, and there is one.
template <bool (*kIs)(char32_t)>
Value AllAre(Interpreter&, const Value& self, CallArguments given) {
  const Arguments arguments("str method", "", std::move(given));
  const Characters& text = self.characters();
  return Value::Bool(!text.empty() &&
                     std::all_of(text.begin(), text.end(), kIs));
}

bool IsAscii(char32_t c) { return Bare(c) < 0x80; }

Value AllAscii(Interpreter&, const Value& self, CallArguments given) {
  const Arguments arguments("isascii", "", std::move(given));
  const Characters& text = self.characters();
  return Value::Bool(std::all_of(text.begin(), text.end(), IsAscii));
}

Value AllPrintable(Interpreter&, const Value& self, CallArguments given) {
  const Arguments arguments("isprintable", "", std::move(given));
  const Characters& text = self.characters();
  return Value::Bool(std::all_of(text.begin(), text.end(), IsPrintable));
}

Value Identifier(Interpreter&, const Value& self, CallArguments given) {
  const Arguments arguments("isidentifier", "", std::move(given));
  return Value::Bool(IsIdentifier(self.characters()));
}

template <bool (*kIs)(CharactersView)>
Value IsCased(Interpreter&, const Value& self, CallArguments given) {
  const Arguments arguments("str method", "", std::move(given));
  return Value::Bool(kIs(self.characters()));
}

bool IsTitled(CharactersView text) {
  bool cased = false;
  bool in_word = false;
  for (char32_t c : text) {
    const bool upper = IsUpper(c) || IsTitle(c);
    if (upper == in_word && (upper || IsLower(c))) return false;
    in_word = upper || IsLower(c);
    cased = cased || in_word;
  }
  return cased;
}

template <bool kLeft, bool kRight>
Value Stripped(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("strip", "chars? /", std::move(given));
  const std::optional<Characters> characters = TextOrNone(arguments, 0);
  in.budget().SpendCharacters(
      self.characters().size() *
      (characters.has_value() ? characters->size() : 1));
  return Like(in, self,
              Characters(Strip(self.characters(), characters,
                               {.left = kLeft, .right = kRight})));
}

Value SplitMethod(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("split", "sep? maxsplit?", std::move(given));
  const std::optional<Characters> separator = TextOrNone(arguments, 0);
  return ListOf(
      in, self,
      Split(in, self.characters(), separator, arguments.IntOr(1, -1)));
}

Value RightSplit(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("rsplit", "sep? maxsplit?", std::move(given));
  const std::optional<Characters> separator = TextOrNone(arguments, 0);
  return ListOf(
      in, self,
      SplitFromRight(in, self.characters(), separator, arguments.IntOr(1, -1)));
}

Value Lines(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("splitlines", "keepends?", std::move(given));
  return ListOf(in, self,
                SplitLines(self.characters(), arguments.TruthOr(0, false)));
}

Value ReplaceMethod(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("replace", "old new count? /", std::move(given));
  const Characters& old = arguments.TextAt(0);
  arguments.TextAt(1);
  const Characters fresh = self.IsMarkup()
                               ? EscapeUnlessMarkup(in, arguments.At(1))
                               : arguments.TextAt(1);
  return Like(
      in, self,
      Replace(in, self.characters(), old, fresh, arguments.IntOr(2, -1)));
}

Value JoinMethod(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("join", "iterable /", std::move(given));
  if (in.IterateOrNull(arguments.At(0)) == nullptr) {
    throw Error("can only join an iterable");
  }
  Characters text;
  size_t index = 0;
  for (const Value& item : in.Items(arguments.At(0))) {
    if (index > 0) text.append(self.characters());
    if (!item.IsText()) {
      throw Error(absl::StrCat("sequence item ", index,
                               ": expected str instance, ", TypeName(item),
                               " found"));
    }
    ++index;
    in.budget().SpendCharacters(self.characters().size() +
                                item.characters().size());
    text.append(self.IsMarkup() ? EscapeUnlessMarkup(in, item)
                                : item.characters());
  }
  return Like(in, self, std::move(text));
}

struct Window {
  size_t begin, end;
  bool empty;
};

// Returns the optional start and stop of find, count, startswith.
Window WindowOf(const Arguments& arguments, size_t index, size_t size) {
  const auto length = static_cast<Int>(size);
  const auto bound = [&](size_t i, Int otherwise) {
    if (arguments.FindSome(i) == nullptr) return otherwise;
    const Int at = arguments.IntOr(i, 0);
    return at < 0 ? std::max<Int>(at + length, 0) : at;
  };
  const Int begin = bound(index, 0);
  const Int end = std::min(bound(index + 1, length), length);
  if (begin > end) return {0, 0, true};
  return {static_cast<size_t>(begin), static_cast<size_t>(end), false};
}

constexpr const char* kPartAndWindow = "sub start? end? /";

// find, rfind, index and rindex.
template <bool kFromRight, bool kMustBeThere>
Value FindMethod(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("find", kPartAndWindow, std::move(given));
  const Characters& part = arguments.TextAt(0);
  const Window window = WindowOf(arguments, 1, self.characters().size());
  size_t found = kNowhere;
  if (!window.empty) {
    const auto text = CharactersView(self.characters())
                          .substr(window.begin, window.end - window.begin);
    found = kFromRight ? FindLast(in, text, part, text.size())
                       : Find(in, text, part);
  }
  if (found != kNowhere) {
    return Value::Integer(static_cast<Int>(found + window.begin));
  }
  if (kMustBeThere) throw Error("substring not found");
  return Value::Integer(-1);
}

Value Count(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("count", kPartAndWindow, std::move(given));
  const Characters& part = arguments.TextAt(0);
  const Window window = WindowOf(arguments, 1, self.characters().size());
  if (window.empty) return Value::Integer(0);
  const auto text = CharactersView(self.characters())
                        .substr(window.begin, window.end - window.begin);
  if (part.empty()) return Value::Integer(static_cast<Int>(text.size()) + 1);
  Int count = 0;
  for (size_t at = Find(in, text, part); at != kNowhere;
       at = Find(in, text, part, at + part.size())) {
    ++count;
  }
  return Value::Integer(count);
}

// startswith and endswith: a text or a tuple of them.
template <bool (*kMatches)(CharactersView, CharactersView)>
Value Affix(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("startswith", "prefix start? end? /",
                            std::move(given));
  const Window window = WindowOf(arguments, 1, self.characters().size());
  const auto text = CharactersView(self.characters())
                        .substr(window.begin, window.end - window.begin);
  const auto matches = [&](const Value& affix) {
    RequireDefined(affix);
    if (!affix.IsText()) {
      throw Error(
          absl::StrCat("startswith first arg must be str or a tuple "
                       "of str, not ",
                       TypeName(affix)));
    }
    in.budget().SpendCharacters(affix.characters().size());
    return !window.empty && kMatches(text, affix.characters());
  };
  const Value& affix = arguments.At(0);
  if (!affix.IsTuple()) return Value::Bool(matches(affix));
  for (const Value& item : affix.items()) {
    if (matches(item)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

template <bool kPrefix>
Value RemoveAffix(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("removeprefix", "affix /", std::move(given));
  const Characters& affix = arguments.TextAt(0);
  CharactersView text = self.characters();
  if (kPrefix && StartsWith(text, affix)) text.remove_prefix(affix.size());
  if (!kPrefix && EndsWith(text, affix)) text.remove_suffix(affix.size());
  return Like(in, self, Characters(text));
}

template <bool kFromRight>
Value Partition(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("partition", "sep /", std::move(given));
  const Characters& separator = arguments.TextAt(0);
  if (separator.empty()) throw Error("empty separator");
  const CharactersView text = self.characters();
  const size_t found = kFromRight ? FindLast(in, text, separator, text.size())
                                  : Find(in, text, separator);
  std::vector<CharactersView> parts = {text, {}, {}};
  if (found != kNowhere) {
    parts = {text.substr(0, found), text.substr(found, separator.size()),
             text.substr(found + separator.size())};
  } else if (kFromRight) {
    std::swap(parts[0], parts[2]);
  }
  std::vector<Value> items;
  for (CharactersView part : parts) {
    items.push_back(Like(in, self, Characters(part)));
  }
  return MakeTuple(in.budget(), std::move(items));
}

// How many characters are missing to `width`; paid for.
size_t Missing(Interpreter& in, const Characters& text, Int width) {
  const Int missing = width - static_cast<Int>(text.size());
  if (missing <= 0) return 0;
  constexpr Int kMax = Int{1} << 40;
  const auto count = static_cast<size_t>(std::min(missing, kMax));
  in.budget().SpendCharacters(count);
  return count;
}

char32_t FillOf(const Arguments& arguments) {
  if (arguments.Find(1) == nullptr) return U' ';
  if (arguments.TextAt(1).size() != 1) {
    throw Error("The fill character must be exactly one character long");
  }
  return arguments.TextAt(1)[0];
}

template <bool kLeft>
Value Justify(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("ljust", "width fillchar? /", std::move(given));
  const Characters& text = self.characters();
  const char32_t fill = FillOf(arguments);
  const Characters more(Missing(in, text, arguments.IntOr(0, 0)), fill);
  return Like(in, self, kLeft ? text + more : more + text);
}

Value CenterMethod(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("center", "width fillchar? /", std::move(given));
  return Like(
      in, self,
      Center(in, self.characters(), arguments.IntOr(0, 0), FillOf(arguments)));
}

Value FillWithZeros(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("zfill", "width /", std::move(given));
  const Characters& text = self.characters();
  const Characters zeros(Missing(in, text, arguments.IntOr(0, 0)), U'0');
  const char32_t first = text.empty() ? 0 : Bare(text[0]);
  const size_t sign = first == U'+' || first == U'-' ? 1 : 0;
  return Like(in, self, text.substr(0, sign) + zeros + text.substr(sign));
}

Value ExpandTabs(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("expandtabs", "tabsize?", std::move(given));
  const Int size = arguments.IntOr(0, 8);
  Characters out;
  Int column = 0;
  for (char32_t c : self.characters()) {
    if (Bare(c) == U'\t') {
      const Int spaces = size > 0 ? size - column % size : 0;
      in.budget().SpendCharacters(
          static_cast<size_t>(std::min<Int>(spaces, Int{1} << 40)));
      out.append(static_cast<size_t>(spaces), U' ');
      column += spaces;
      continue;
    }
    out.push_back(c);
    column = Bare(c) == U'\n' || Bare(c) == U'\r' ? 0 : column + 1;
  }
  return Like(in, self, std::move(out));
}

Value FormatMethod(Interpreter& in, const Value& self, CallArguments given) {
  return FormatBraces(in, self, given);
}

Value FormatMap(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("format_map", "mapping /", std::move(given));
  CallArguments named;
  if (!arguments.At(0).IsDict()) throw Error("format_map() takes a mapping");
  for (const auto& [key, value] : arguments.At(0).dict().items()) {
    if (key.IsText()) named.named.emplace_back(ToUtf8(key.characters()), value);
  }
  return FormatBraces(in, self, named);
}

constexpr std::pair<std::string_view, Method> kMethods[] = {
    {"capitalize", Mapped<Capitalize>},
    {"casefold", Mapped<CaseFold>},
    {"center", CenterMethod},
    {"count", Count},
    {"endswith", Affix<EndsWith>},
    {"expandtabs", ExpandTabs},
    {"find", FindMethod<false, false>},
    {"format", FormatMethod},
    {"format_map", FormatMap},
    {"index", FindMethod<false, true>},
    {"isalnum", AllAre<IsAlnum>},
    {"isalpha", AllAre<IsAlpha>},
    {"isascii", AllAscii},
    {"isdecimal", AllAre<IsDecimal>},
    {"isdigit", AllAre<IsDigit>},
    {"isidentifier", Identifier},
    {"islower", IsCased<IsLowerText>},
    {"isnumeric", AllAre<IsNumeric>},
    {"isprintable", AllPrintable},
    {"isspace", AllAre<IsSpace>},
    {"istitle", IsCased<IsTitled>},
    {"isupper", IsCased<IsUpperText>},
    {"join", JoinMethod},
    {"ljust", Justify<true>},
    {"lower", Mapped<Lower>},
    {"lstrip", Stripped<true, false>},
    {"partition", Partition<false>},
    {"removeprefix", RemoveAffix<true>},
    {"removesuffix", RemoveAffix<false>},
    {"replace", ReplaceMethod},
    {"rfind", FindMethod<true, false>},
    {"rindex", FindMethod<true, true>},
    {"rjust", Justify<false>},
    {"rpartition", Partition<true>},
    {"rsplit", RightSplit},
    {"rstrip", Stripped<false, true>},
    {"split", SplitMethod},
    {"splitlines", Lines},
    {"startswith", Affix<StartsWith>},
    {"strip", Stripped<true, true>},
    {"swapcase", Mapped<SwapCase>},
    {"title", Mapped<Title>},
    {"upper", Mapped<Upper>},
    {"zfill", FillWithZeros},
};

}  // namespace

Method FindTextMethod(std::string_view name) {
  for (const auto& [known, method] : kMethods) {
    if (known == name) return method;
  }
  return nullptr;
}

}  // namespace espalier::jinja
