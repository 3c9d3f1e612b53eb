#include "common/grammar/json_grammar.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/grammar/number_range.h"
#include "common/json/ordered_json.h"

namespace espalier::grammar {
namespace {

// Characters that a JSON string has as they are.
CodePoints Plain() {
  return CodePoints{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}.Complement();
}

// Returns the escape of a character that has to be escaped.
std::string Escape(uint32_t character) {
  switch (character) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return absl::StrFormat("\\u%04x", character);
  }
}

// Returns one of the characters, as a JSON string has it.
ExpressionPtr Encoded(const CodePoints& characters) {
  std::vector<ExpressionPtr> ways = {OneOf(characters.Intersection(Plain()))};
  const CodePoints escaped = characters.Intersection(Plain().Complement());
  for (const CodePoints::Range& range : escaped.ranges()) {
    for (uint32_t c = range.first; c <= range.last; ++c) {
      ways.push_back(Text(Escape(c)));
    }
  }
  return Choice(std::move(ways));
}

std::string EncodedText(absl::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x20 || c == '"' || c == '\\') {
      encoded += Escape(byte);
    } else {
      encoded += c;
    }
  }
  return encoded;
}

ExpressionPtr HexDigits(int64_t count) {
  return Repeat(OneOf({{'0', '9'}, {'A', 'F'}, {'a', 'f'}}), count, count);
}

// XXXX after \u, halves of pairs only as pairs.
ExpressionPtr UnicodeEscape() {
  const ExpressionPtr d = OneOf({{'D', 'D'}, {'d', 'd'}});
  const ExpressionPtr other =
      OneOf({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}});
  return Choice(
      {Sequence({Text("u"), other, HexDigits(3)}),
       Sequence({Text("u"), d, OneOf({{'0', '7'}}), HexDigits(2)}),
       Sequence({Text("u"), d, OneOf({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}),
                 HexDigits(2), Text("\\u"), d, OneOf({{'C', 'F'}, {'c', 'f'}}),
                 HexDigits(2)})});
}

// The rests of strings that are none of `names`, all of which begin with the
// same `at` characters. At some depth, none of them goes on.
ExpressionPtr RestExcept(const std::vector<std::vector<uint32_t>>& names,
                         size_t at, const ExpressionPtr& any_rest) {
  constexpr size_t kMaxDepth = 32;
  std::map<uint32_t, std::vector<std::vector<uint32_t>>> next;
  bool is_name = false;
  for (const auto& name : names) {
    if (name.size() == at) {
      is_name = true;
    } else {
      next[name[at]].push_back(name);
    }
  }
  std::vector<ExpressionPtr> rests;
  if (!is_name) rests.push_back(Text("\""));
  CodePoints others = CodePoints::All();
  for (const auto& [character, longer] : next) {
    others =
        others.Intersection(CodePoints{{character, character}}.Complement());
    if (at == kMaxDepth) continue;
    rests.push_back(Sequence({Encoded({{character, character}}),
                              RestExcept(longer, at + 1, any_rest)}));
  }
  CodePoints short_escapes = Plain();
  for (const uint32_t c : {'"', '\\', '\b', '\f', '\n', '\r', '\t'}) {
    short_escapes.Add(c, c);
  }
  others = others.Intersection(short_escapes);
  rests.push_back(Sequence({Encoded(others), any_rest}));
  return Choice(std::move(rests));
}

}  // namespace

template <typename Make>
ExpressionPtr JsonGrammar::Shared(absl::string_view name, const Make& make) {
  const auto known = shared_.find(name);
  if (known != shared_.end()) return Rule(known->second);
  const int64_t number = rules_.Add(nullptr);
  shared_.emplace(std::string(name), number);
  ExpressionPtr made = make();
  rules_.rules[number] = std::move(made);
  return Rule(number);
}

ExpressionPtr JsonGrammar::Blank() {
  if (compact_) return Text("");
  return Shared("blank", [] {
    const ExpressionPtr indentation =
        Choice({Repeat(Text(" "), 0, kMaxIndentation),
                Repeat(Text("\t"), 1, kMaxTabs)});
    return Choice({Text(""), Text(" "), Sequence({Text("\n"), indentation})});
  });
}

ExpressionPtr JsonGrammar::Comma() {
  if (compact_) return Text(", ");
  return Sequence({Blank(), Text(","), Blank()});
}

ExpressionPtr JsonGrammar::Colon() {
  if (compact_) return Text(": ");
  return Sequence({Blank(), Text(":"), Blank()});
}

ExpressionPtr JsonGrammar::Bracketed(absl::string_view open,
                                     ExpressionPtr inner,
                                     absl::string_view close) {
  if (inner->kind == Expression::Kind::kText && inner->text.empty()) {
    return Sequence({Text(open), Blank(), Text(close)});
  }
  return Sequence(
      {Text(open), Blank(), std::move(inner), Blank(), Text(close)});
}

ExpressionPtr JsonGrammar::AnyValue() {
  return Shared("value", [this] {
    return Choice({AnyObject(), AnyArray(), AnyString(), AnyNumber(),
                   Text("true"), Text("false"), Text("null")});
  });
}

ExpressionPtr JsonGrammar::AnyObject() {
  return Shared("object", [this] {
    const ExpressionPtr member = Sequence({AnyString(), Colon(), AnyValue()});
    const ExpressionPtr members =
        Sequence({member, Repeat(Sequence({Comma(), member}), 0,
                                 Expression::kUnbounded)});
    return Choice(
        {Bracketed("{", Text(""), "}"), Bracketed("{", members, "}")});
  });
}

ExpressionPtr JsonGrammar::AnyArray() {
  return Shared("array", [this] {
    return ArrayOf(AnyValue(), 0, Expression::kUnbounded);
  });
}

ExpressionPtr JsonGrammar::ArrayOf(const ExpressionPtr& item, int64_t least,
                                   int64_t most) {
  std::vector<ExpressionPtr> ways;
  if (least == 0) ways.push_back(Bracketed("[", Text(""), "]"));
  if (most != 0) {
    const int64_t fewest = std::max<int64_t>(least - 1, 0);
    const int64_t others = most == Expression::kUnbounded ? most : most - 1;
    ways.push_back(Bracketed(
        "[",
        Sequence({item, Repeat(Sequence({Comma(), item}), fewest, others)}),
        "]"));
  }
  return Choice(std::move(ways));
}

ExpressionPtr JsonGrammar::TupleOf(
    const std::function<ExpressionPtr(size_t)>& item, size_t fixed,
    int64_t least, int64_t most) {
  const auto size = static_cast<int64_t>(fixed);
  ExpressionPtr rest = Text("");
  if (most == Expression::kUnbounded || most > size) {
    rest = Repeat(Sequence({Comma(), item(fixed)}),
                  std::max<int64_t>(least - size, 0),
                  most == Expression::kUnbounded ? most : most - size);
  }
  for (int64_t i = size - 1; i >= 0; --i) {
    if (most != Expression::kUnbounded && i >= most) continue;
    ExpressionPtr next = item(static_cast<size_t>(i));
    if (i > 0) next = Sequence({Comma(), std::move(next)});
    rest = Sequence({std::move(next), std::move(rest)});
    if (i > 0 && i >= least) rest = Optional(std::move(rest));
  }
  std::vector<ExpressionPtr> ways;
  if (least == 0) ways.push_back(Bracketed("[", Text(""), "]"));
  if (most != 0) ways.push_back(Bracketed("[", std::move(rest), "]"));
  return Choice(std::move(ways));
}

ExpressionPtr JsonGrammar::Character() {
  const ExpressionPtr escaped = Shared("escaped", [] {
    return Choice({OneOf({{'"', '"'},
                          {'/', '/'},
                          {'\\', '\\'},
                          {'b', 'b'},
                          {'f', 'f'},
                          {'n', 'n'},
                          {'r', 'r'},
                          {'t', 't'}}),
                   UnicodeEscape()});
  });
  return Choice({OneOf(Plain()), Sequence({Text("\\"), escaped})});
}

ExpressionPtr JsonGrammar::AnyString() {
  return Sequence({Text("\""), RestOfString()});
}

// One rule up to the end of the string, so that a token's characters are mostly
// its own.
ExpressionPtr JsonGrammar::RestOfString() {
  return Shared("rest of string", [this] {
    std::vector<ExpressionPtr> ways = {Text("\"")};
    const ExpressionPtr character = Character();
    for (const ExpressionPtr& way : character->parts) {
      ways.push_back(Sequence({way, RestOfString()}));
    }
    return Choice(std::move(ways));
  });
}

ExpressionPtr JsonGrammar::StringOfLength(int64_t least, int64_t most) {
  if (least == 0 && most == Expression::kUnbounded) return AnyString();
  return Sequence({Text("\""), Repeat(Character(), least, most), Text("\"")});
}

ExpressionPtr JsonGrammar::StringOf(const ExpressionPtr& content) {
  const auto encode = [](const Expression& part) {
    return part.kind == Expression::Kind::kText ? Text(EncodedText(part.text))
                                                : Encoded(part.characters);
  };
  return Sequence({Text("\""), Mapped(content, encode), Text("\"")});
}

ExpressionPtr JsonGrammar::Literal(const OrderedJson& value) {
  if (value.is_object()) {
    std::vector<ExpressionPtr> parts;
    for (const auto& [name, member] : value.items()) {
      if (!parts.empty()) parts.push_back(Comma());
      parts.push_back(Text('"' + EncodedText(name) + '"'));
      parts.push_back(Colon());
      parts.push_back(Literal(member));
    }
    return Bracketed("{", Sequence(std::move(parts)), "}");
  }
  if (value.is_array()) {
    std::vector<ExpressionPtr> parts;
    for (const OrderedJson& item : value) {
      if (!parts.empty()) parts.push_back(Comma());
      parts.push_back(Literal(item));
    }
    return Bracketed("[", Sequence(std::move(parts)), "]");
  }
  if (value.is_string()) {
    return Text('"' + EncodedText(value.get_ref<const std::string&>()) + '"');
  }
  return Text(ToText(value));
}

ExpressionPtr JsonGrammar::StringExcept(const std::vector<std::string>& names) {
  if (names.empty()) return AnyString();
  std::vector<std::vector<uint32_t>> characters;
  for (const std::string& name : names) {
    if (auto decoded = CharactersOf(name)) {
      characters.push_back(*std::move(decoded));
    }
  }
  return Sequence({Text("\""), RestExcept(characters, 0, RestOfString())});
}

}  // namespace espalier::grammar
