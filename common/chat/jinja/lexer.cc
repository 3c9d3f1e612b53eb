#include "common/chat/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/numbers.h"
#include "common/chat/jinja/string_literal.h"

namespace espalier::jinja {
namespace {

// Longer ones first.
constexpr std::array<std::string_view, 26> kTagOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool IsWord(char32_t c) { return c == U'_' || IsAlnum(c); }

// Line ends as "\n", without the last one.
Characters Normalized(std::string_view source) {
  const Characters raw = FromUtf8(source);
  Characters text;
  text.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == U'\r') {
      text.push_back(U'\n');
      if (i + 1 < raw.size() && raw[i + 1] == U'\n') ++i;
    } else {
      text.push_back(raw[i]);
    }
  }
  if (!text.empty() && text.back() == U'\n') text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(Characters source) : source_(std::move(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) ReadData();
    Add(Token::Type::kEnd);
    return std::move(tokens_);
  }

 private:
  bool At(std::string_view ascii, size_t at) const {
    return Is(CharactersView(source_).substr(std::min(at, source_.size()),
                                             ascii.size()),
              ascii);
  }
  bool At(std::string_view ascii) const { return At(ascii, at_); }
  char32_t Peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : 0;
  }

  [[noreturn]] void Fail(const std::string& problem) const {
    Error error(problem);
    error.line = line_;
    throw error;
  }

  Token& Add(Token::Type type) {
    tokens_.emplace_back();
    tokens_.back().type = type;
    tokens_.back().line = line_;
    return tokens_.back();
  }

  // Goes on to `end`, counting lines.
  void MoveTo(size_t end) {
    line_ += static_cast<int>(
        std::count(source_.begin() + at_, source_.begin() + end, U'\n'));
    at_ = end;
  }

  size_t SkipSpaces(size_t at) const {
    while (at < source_.size() && IsSpace(source_[at])) ++at;
    return at;
  }

  // Returns where the next tag begins.
  size_t NextTag() const {
    for (size_t at = at_; at + 1 < source_.size(); ++at) {
      if (source_[at] != U'{') continue;
      const char32_t next = source_[at + 1];
      if (next == U'%' || next == U'{' || next == U'#') return at;
    }
    return kNowhere;
  }

  // The text before a tag at `tag`, trimmed by the tag's sign or by
  // lstrip_blocks.
  void AddData(size_t tag, char32_t sign, bool is_variable) {
    size_t end = tag;
    if (sign == U'-') {
      while (end > at_ && IsSpace(source_[end - 1])) --end;
    } else if (sign != U'+' && !is_variable) {
      size_t line_start = tag;
      while (line_start > at_ && source_[line_start - 1] != U'\n') --line_start;
      const bool blank = SkipSpaces(line_start) >= tag;
      if (blank && (line_start > at_ || line_starting_)) end = line_start;
    }
    if (end > at_) {
      Add(Token::Type::kData).characters = source_.substr(at_, end - at_);
    }
    MoveTo(tag);
  }

  // Text up to the next tag, and the tag.
  void ReadData() {
    const size_t tag = NextTag();
    if (tag == kNowhere) {
      Add(Token::Type::kData).characters = source_.substr(at_);
      return MoveTo(source_.size());
    }
    const char32_t kind = source_[tag + 1];
    const char32_t after = tag + 2 < source_.size() ? source_[tag + 2] : 0;
    const char32_t sign = after == U'-' || after == U'+' ? after : 0;
    AddData(tag, sign, kind == U'{');
    const size_t inside = tag + (sign == 0 ? 2 : 3);
    if (kind == U'#') return ReadComment(inside);
    if (kind == U'%') {
      const size_t raw = RawEnd(inside, "raw");
      if (raw != kNowhere) return ReadRaw(raw);
    }
    Add(kind == U'{' ? Token::Type::kVariableBegin : Token::Type::kBlockBegin);
    MoveTo(inside);
    if (kind == U'{') {
      ReadTag("}}", Token::Type::kVariableEnd);
    } else {
      ReadTag("%}", Token::Type::kBlockEnd);
    }
  }

  // Returns where the tag with `word` alone ends, if `at` is within its
  // beginning.
  size_t RawEnd(size_t at, std::string_view word) const {
    at = SkipSpaces(at);
    if (!At(word, at)) return kNowhere;
    at = SkipSpaces(at + word.size());
    const bool ends = word == "endraw";
    if (At("-%}", at)) return SkipSpaces(at + 3);
    if (ends && At("+%}", at)) return at + 3;
    if (!At("%}", at)) return kNowhere;
    return at + 2 + (ends && At("\n", at + 2) ? 1 : 0);
  }

  void ReadRaw(size_t begin) {
    MoveTo(begin);
    line_starting_ = source_[begin - 1] == U'\n';
    for (size_t tag = begin; tag + 1 < source_.size(); ++tag) {
      if (!At("{%", tag)) continue;
      const char32_t after = tag + 2 < source_.size() ? source_[tag + 2] : 0;
      const bool has_sign = after == U'-' || after == U'+';
      const size_t end = RawEnd(tag + (has_sign ? 3 : 2), "endraw");
      if (end == kNowhere) continue;
      AddData(tag, has_sign ? after : 0, /*is_variable=*/false);
      MoveTo(end);
      line_starting_ = source_[end - 1] == U'\n';
      return;
    }
    Fail("Missing end of raw directive");
  }

  void ReadComment(size_t begin) {
    const size_t end = source_.find(U"#}", begin);
    if (end == kNowhere) Fail("Missing end of comment tag");
    size_t next = end + 2;
    const char32_t sign = end > begin ? source_[end - 1] : 0;
    if (sign == U'-') {
      next = SkipSpaces(next);
    } else if (sign != U'+' && next < source_.size() &&
               source_[next] == U'\n') {
      ++next;
    }
    MoveTo(next);
    line_starting_ = source_[next - 1] == U'\n';
  }

  // Reads tokens up to `close`.
  void ReadTag(std::string_view close, Token::Type end_type) {
    const bool block = end_type == Token::Type::kBlockEnd;
    open_.clear();
    while (at_ < source_.size()) {
      if (open_.empty()) {
        const bool minus = Peek() == U'-' && At(close, at_ + 1);
        const bool plus = block && Peek() == U'+' && At(close, at_ + 1);
        if (minus || plus || At(close)) {
          Add(end_type);
          size_t next = at_ + close.size() + (minus || plus ? 1 : 0);
          if (minus) next = SkipSpaces(next);
          const bool trims = block && !minus && !plus;
          if (trims && next < source_.size() && source_[next] == U'\n') ++next;
          MoveTo(next);
          line_starting_ = source_[next - 1] == U'\n';
          return;
        }
      }
      ReadToken();
    }
  }

  void ReadToken() {
    const char32_t c = Peek();
    if (IsSpace(c)) return MoveTo(SkipSpaces(at_));
    if (IsAsciiDigit(c)) return ReadNumber();
    if (IsWord(c)) return ReadName();
    if (c == U'\'' || c == U'"') return ReadString();
    for (std::string_view op : kTagOperators) {
      if (!At(op)) continue;
      Balance(op);
      Add(Token::Type::kOperator).text = std::string(op);
      return MoveTo(at_ + op.size());
    }
    Fail(absl::StrCat("unexpected char '", ToUtf8({&c, 1}), "'"));
  }

  void Balance(std::string_view op) {
    const char c = op[0];
    if (c == '(') open_.push_back(')');
    if (c == '[') open_.push_back(']');
    if (c == '{') open_.push_back('}');
    if (c != ')' && c != ']' && c != '}') return;
    if (open_.empty()) Fail(absl::StrCat("unexpected '", std::string(op), "'"));
    const char expected = open_.back();
    open_.pop_back();
    if (c == expected) return;
    Fail(absl::StrCat("unexpected '", std::string(op), "', expected '",
                      std::string(1, expected), "'"));
  }

  void ReadName() {
    size_t end = at_;
    while (end < source_.size() && IsWord(source_[end])) ++end;
    const Characters name = source_.substr(at_, end - at_);
    if (!IsIdentifier(name)) Fail("Invalid character in identifier");
    Add(Token::Type::kName).text = ToUtf8(name);
    MoveTo(end);
  }

  void ReadString() {
    const char32_t quote = Peek();
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) {
      end += source_[end] == U'\\' ? 2 : 1;
    }
    if (end >= source_.size()) {
      Fail(absl::StrCat("unexpected char '", ToUtf8({&quote, 1}), "'"));
    }
    std::string problem;
    Token& token = Add(Token::Type::kString);
    token.characters = Unescaped(
        CharactersView(source_).substr(at_ + 1, end - at_ - 1), problem);
    if (!problem.empty()) Fail(problem);
    MoveTo(end + 1);
  }

  // Digits with single underscores between them.
  size_t SkipDigits(size_t at) const {
    while (at < source_.size() &&
           (IsAsciiDigit(source_[at]) ||
            (source_[at] == U'_' && at + 1 < source_.size() &&
             IsAsciiDigit(source_[at + 1])))) {
      ++at;
    }
    return at;
  }

  // Returns where a float that begins here ends; kNowhere: there is none.
  size_t FloatEnd() const {
    if (at_ > 0 && source_[at_ - 1] == U'.') return kNowhere;
    size_t end = SkipDigits(at_);
    bool is_float = false;
    if (end + 1 < source_.size() && source_[end] == U'.' &&
        IsAsciiDigit(source_[end + 1])) {
      end = SkipDigits(end + 1);
      is_float = true;
    }
    if (end < source_.size() && (source_[end] | 0x20) == U'e') {
      size_t digits = end + 1;
      if (digits < source_.size() &&
          (source_[digits] == U'+' || source_[digits] == U'-')) {
        ++digits;
      }
      if (digits < source_.size() && IsAsciiDigit(source_[digits])) {
        end = SkipDigits(digits);
        is_float = true;
      }
    }
    return is_float ? end : kNowhere;
  }

  size_t IntegerEnd() const {
    size_t end = at_ + 1;
    if (Peek() != U'0') return SkipDigits(at_);
    const char32_t letter = Peek(1) | 0x20;
    const bool prefix = letter == U'x' || letter == U'o' || letter == U'b';
    if (!prefix) {
      while (end < source_.size() && source_[end] == U'0') ++end;
      return end;
    }
    const auto fits = [&](size_t at) {
      const char32_t c = at < source_.size() ? source_[at] : 0;
      if (letter == U'b') return c == U'0' || c == U'1';
      if (letter == U'o') return c >= U'0' && c <= U'7';
      return IsAsciiDigit(c) || ((c | 0x20) >= U'a' && (c | 0x20) <= U'f');
    };
    size_t digits = at_ + 2;
    while (fits(digits) || (At("_", digits) && fits(digits + 1))) ++digits;
    return digits > at_ + 2 ? digits : end;
  }

  void ReadNumber() {
    const size_t float_end = FloatEnd();
    const size_t end = float_end != kNowhere ? float_end : IntegerEnd();
    const std::string text =
        ToUtf8(CharactersView(source_).substr(at_, end - at_));
    Token& token = Add(Token::Type::kNumber);
    if (float_end != kNowhere) {
      token.number = Value::Float(ParseFloat(text).value_or(0));
    } else {
      token.number = Value::Integer(ParseInt(text, /*base=*/0).value_or(0));
    }
    MoveTo(end);
  }

  const Characters source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last tag ended with its line
  std::vector<char> open_;     // what closes the brackets of the tag
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) {
  return Lexer(Normalized(source)).Run();
}

}  // namespace espalier::jinja
