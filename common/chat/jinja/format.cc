#include "common/chat/jinja/format.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/markup.h"
#include "common/chat/jinja/numbers.h"
#include "common/chat/jinja/operators.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

constexpr size_t kMaxWidth = size_t{1} << 30;

// Reads a text from its beginning; characters without their marks.
class Reader {
 public:
  explicit Reader(CharactersView text) : text_(text) {}

  bool Ends() const { return at_ >= text_.size(); }
  char32_t Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? Bare(text_[at_ + ahead]) : 0;
  }
  char32_t Take() { return text_[at_++]; }
  bool TakeIf(char32_t c) {
    if (Peek() != c || Ends()) return false;
    ++at_;
    return true;
  }
  // Takes a number in digits; 0: there is none.
  size_t TakeNumber() {
    size_t number = 0;
    while (!Ends() && IsAsciiDigit(Peek())) {
      number = number * 10 + (Peek() - U'0');
      if (number > kMaxWidth) throw Error("Too many decimal digits in format");
      ++at_;
    }
    return number;
  }
  CharactersView Rest() const { return text_.substr(at_); }
  void Skip(size_t count) { at_ += count; }

 private:
  CharactersView text_;
  size_t at_ = 0;
};

bool IsAlign(char32_t c) {
  return c == U'<' || c == U'>' || c == U'^' || c == U'=';
}

FormatSpec ParseSpec(CharactersView text, const Value& value) {
  FormatSpec spec;
  Reader reader(text);
  if (IsAlign(reader.Peek(1))) {
    spec.fill = reader.Take();
    spec.align = static_cast<char>(Bare(reader.Take()));
  } else if (IsAlign(reader.Peek())) {
    spec.align = static_cast<char>(Bare(reader.Take()));
  }
  const char32_t sign = reader.Peek();
  if (sign == U'+' || sign == U'-' || sign == U' ') {
    spec.sign = static_cast<char>(Bare(reader.Take()));
  }
  spec.alternate = reader.TakeIf(U'#');
  if (reader.Peek() == U'0' && spec.align == 0) {
    spec.fill = U'0';
    spec.align = value.IsNumber() ? '=' : '<';
  }
  spec.width = reader.TakeNumber();
  if (reader.Peek() == U',' || reader.Peek() == U'_') {
    spec.grouping = static_cast<char>(Bare(reader.Take()));
  }
  if (reader.TakeIf(U'.')) {
    if (!IsAsciiDigit(reader.Peek()))
      throw Error("Format specifier missing precision");
    spec.precision = static_cast<int>(reader.TakeNumber());
  }
  if (!reader.Ends()) spec.type = static_cast<char>(Bare(reader.Take()));
  if (!reader.Ends()) {
    throw Error(absl::StrCat("Invalid format specifier '", ToUtf8(text),
                             "' for object of type '", TypeName(value), "'"));
  }
  return spec;
}

// text.format(...), with Python's numbering of fields.
class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, const CallArguments& arguments,
                 bool markup)
      : interpreter_(interpreter), arguments_(arguments), markup_(markup) {}

  Characters Format(CharactersView text, int levels) {
    if (levels < 0) throw Error("Max string recursion exceeded");
    Characters out;
    Reader reader(text);
    while (!reader.Ends()) {
      interpreter_.budget().SpendCharacters(1);
      const char32_t c = reader.Take();
      if (Bare(c) != U'{' && Bare(c) != U'}') {
        out.push_back(c);
      } else if (reader.TakeIf(Bare(c))) {
        out.push_back(c);
      } else if (Bare(c) == U'}') {
        throw Error("Single '}' encountered in format string");
      } else {
        const CharactersView field = TakeField(reader);
        out.append(FormatField(field, levels));
      }
    }
    return out;
  }

 private:
  // Returns what stands up to the brace that closes this one.
  CharactersView TakeField(Reader& reader) {
    const CharactersView rest = reader.Rest();
    int open = 1;
    for (size_t i = 0; i < rest.size(); ++i) {
      if (Bare(rest[i]) == U'{') ++open;
      if (Bare(rest[i]) == U'}' && --open == 0) {
        reader.Skip(i + 1);
        return rest.substr(0, i);
      }
    }
    if (rest.empty()) throw Error("Single '{' encountered in format string");
    throw Error("expected '}' before end of string");
  }

  Characters FormatField(CharactersView field, int levels) {
    size_t end = 0;
    int brackets = 0;
    for (; end < field.size(); ++end) {
      const char32_t c = Bare(field[end]);
      if (c == U'[') ++brackets;
      if (c == U']') --brackets;
      if (brackets <= 0 && (c == U':' || c == U'!')) break;
    }
    Value value = Lookup(field.substr(0, end));
    CharactersView rest = field.substr(end);
    if (!rest.empty() && Bare(rest[0]) == U'!') {
      if (rest.size() < 2) throw Error("unmatched '{' in format spec");
      value = Converted(value, Bare(rest[1]));
      rest.remove_prefix(2);
      if (!rest.empty() && Bare(rest[0]) != U':') {
        throw Error("expected ':' after conversion specifier");
      }
    }
    Characters spec;
    if (!rest.empty()) spec = Format(rest.substr(1), levels - 1);
    const FormatSpec parsed = ParseSpec(spec, value);
    if (markup_ && value.IsMarkup()) return value.characters();
    Characters text = FormatValue(interpreter_, value, parsed);
    return markup_ ? Escape(interpreter_, text) : text;
  }

  Value Converted(const Value& value, char32_t conversion) {
    if (conversion == U's') {
      return interpreter_.Text(Str(interpreter_, value));
    }
    if (conversion != U'r' && conversion != U'a') {
      throw Error("Unknown conversion specifier");
    }
    Characters repr, ascii;
    AppendRepr(interpreter_, value, 0, repr);
    if (conversion == U'r') return interpreter_.Text(std::move(repr));
    for (char32_t c : repr) {
      if (Bare(c) < 0x80) {
        ascii.push_back(c);
      } else {
        AppendEscape(c, ascii);
      }
    }
    return interpreter_.Text(std::move(ascii));
  }

  Value Lookup(CharactersView path) {
    size_t end = 0;
    while (end < path.size() && Bare(path[end]) != U'.' &&
           Bare(path[end]) != U'[') {
      ++end;
    }
    Value value = First(path.substr(0, end));
    path.remove_prefix(end);
    while (!path.empty()) {
      const bool dot = Bare(path[0]) == U'.';
      path.remove_prefix(1);
      size_t size = 0;
      while (size < path.size() &&
             (dot ? Bare(path[size]) != U'.' && Bare(path[size]) != U'['
                  : Bare(path[size]) != U']')) {
        ++size;
      }
      const CharactersView name = path.substr(0, size);
      if (name.empty()) throw Error("Empty attribute in format string");
      value = dot ? interpreter_.Attribute(value, ToUtf8(name))
                  : interpreter_.Item(value, KeyOf(name));
      path.remove_prefix(std::min(path.size(), size + (dot ? 0 : 1)));
    }
    return value;
  }

  Value KeyOf(CharactersView name) {
    if (std::all_of(name.begin(), name.end(), IsAsciiDigit)) {
      return Value::Integer(ParseInt(ToUtf8(name), 10).value_or(0));
    }
    return interpreter_.Text(Characters(name));
  }

  Value First(CharactersView name) {
    const bool number = std::all_of(name.begin(), name.end(), IsAsciiDigit);
    if (!number) {
      for (const auto& [known, value] : arguments_.named) {
        if (known == ToUtf8(name)) return value;
      }
      throw Error(absl::StrCat("KeyError: '", ToUtf8(name), "'"));
    }
    const bool automatic = name.empty();
    if (numbered_.has_value() && *numbered_ != automatic) {
      throw Error("cannot switch between manual and automatic field numbering");
    }
    numbered_ = automatic;
    const auto index =
        automatic ? next_++
                  : static_cast<size_t>(ParseInt(ToUtf8(name), 10).value_or(0));
    if (index >= arguments_.positional.size()) {
      throw Error(absl::StrCat("Replacement index ", index,
                               " out of range for positional args tuple"));
    }
    return arguments_.positional[index];
  }

  Interpreter& interpreter_;
  const CallArguments& arguments_;
  bool markup_;
  std::optional<bool> numbered_;  // automatically
  size_t next_ = 0;
};

// text % arguments.
class PercentFormatter {
 public:
  PercentFormatter(Interpreter& interpreter, const Value& arguments,
                   bool markup)
      : interpreter_(interpreter), arguments_(arguments), markup_(markup) {}

  Characters Format(CharactersView text) {
    Characters out;
    Reader reader(text);
    while (!reader.Ends()) {
      interpreter_.budget().SpendCharacters(1);
      const char32_t c = reader.Take();
      if (Bare(c) != U'%') {
        out.push_back(c);
      } else if (reader.Ends()) {
        throw Error("incomplete format");
      } else {
        out.append(Conversion(reader));
      }
    }
    const bool all =
        !arguments_.IsTuple() || mapping_ || next_ >= arguments_.items().size();
    const bool mapping = arguments_.IsDict() || arguments_.IsList();
    if (!all ||
        (!arguments_.IsTuple() && !mapping && !mapping_ && next_ == 0)) {
      throw Error("not all arguments converted during string formatting");
    }
    return out;
  }

 private:
  Value Next() {
    if (arguments_.IsTuple()) {
      if (next_ >= arguments_.items().size()) {
        throw Error("not enough arguments for format string");
      }
      return arguments_.items()[next_++];
    }
    if (next_++ > 0) throw Error("not enough arguments for format string");
    return arguments_;
  }

  Value Named(Reader& reader) {
    if (!arguments_.IsDict()) throw Error("format requires a mapping");
    Characters name;
    for (int open = 1;;) {
      if (reader.Ends()) throw Error("incomplete format key");
      const char32_t c = reader.Take();
      if (Bare(c) == U'(') ++open;
      if (Bare(c) == U')' && --open == 0) break;
      name.push_back(c);
    }
    mapping_ = true;
    const Value* found =
        arguments_.dict().Find(interpreter_.budget(), ConstantText(name));
    if (found == nullptr) throw Error(absl::StrCat("KeyError: ", Quoted(name)));
    return *found;
  }

  size_t Size(Reader& reader) {
    if (!reader.TakeIf(U'*')) return reader.TakeNumber();
    const Value value = Next();
    if (!value.IsIntegral()) throw Error("* wants int");
    return static_cast<size_t>(
        std::clamp<Int>(value.integer(), 0, Int{kMaxWidth}));
  }

  Characters Conversion(Reader& reader) {
    std::optional<Value> value;
    if (reader.TakeIf(U'(')) value = Named(reader);
    FormatSpec spec;
    bool zero = false;
    bool left = false;
    for (;; reader.Skip(1)) {
      const char32_t flag = reader.Peek();
      if (flag == U'0') {
        zero = true;
      } else if (flag == U'-') {
        left = true;
      } else if (flag == U'+') {
        spec.sign = '+';
      } else if (flag == U' ') {
        if (spec.sign != '+') spec.sign = ' ';
      } else if (flag == U'#') {
        spec.alternate = true;
      } else {
        break;
      }
    }
    spec.width = Size(reader);
    if (reader.TakeIf(U'.')) spec.precision = static_cast<int>(Size(reader));
    while (reader.Peek() == U'h' || reader.Peek() == U'l' ||
           reader.Peek() == U'L') {
      reader.Skip(1);
    }
    if (reader.Ends()) throw Error("incomplete format");
    const auto type = static_cast<char>(Bare(reader.Take()));
    if (type == '%') return U"%";
    if (!value.has_value()) value = Next();
    spec.align = left ? '<' : 0;
    return Convert(*value, type, zero && !left, spec);
  }

  Characters Convert(const Value& value, char type, bool zero,
                     FormatSpec spec) {
    if (type == 's' || type == 'r' || type == 'a') {
      Characters text;
      if (type == 's') {
        text = markup_ ? EscapeUnlessMarkup(interpreter_, value)
                       : Str(interpreter_, value);
      } else {
        AppendRepr(interpreter_, value, 0, text);
      }
      spec.sign = '-';
      if (spec.align == 0) spec.align = '>';
      return FormatValue(interpreter_, interpreter_.Text(std::move(text)),
                         spec);
    }
    const bool whole =
        std::string_view("diouxX").find(type) != std::string_view::npos;
    const bool real =
        std::string_view("eEfFgG").find(type) != std::string_view::npos;
    if (!whole && !real && type != 'c') {
      throw Error(absl::StrCat("unsupported format character '",
                               std::string(1, type), "'"));
    }
    RequireDefined(value);
    if (type == 'c' && value.IsText() && value.characters().size() == 1) {
      return FormatValue(interpreter_, value, spec);
    }
    if (!value.IsNumber()) {
      throw Error(absl::StrCat("%", std::string(1, type),
                               " format: a real number is required, not ",
                               TypeName(value)));
    }
    if (zero) {
      spec.fill = U'0';
      spec.align = '=';
    }
    spec.type = type == 'i' || type == 'u' ? 'd' : type;
    if (!whole) return FormatValue(interpreter_, value, spec);
    const bool based = type == 'x' || type == 'X' || type == 'o';
    if (based && value.IsFloat()) {
      throw Error("%x format: an integer is required, not float");
    }
    const Value integer =
        Value::Integer(value.IsFloat() ? ToInt(value.real()) : value.integer());
    if (spec.precision.has_value()) return WithDigits(integer, spec);
    return FormatValue(interpreter_, integer, spec);
  }

  // "%.5d": at least five digits.
  Characters WithDigits(const Value& integer, FormatSpec spec) {
    FormatSpec digits = spec;
    digits.width = static_cast<size_t>(*spec.precision) +
                   (integer.integer() < 0 || spec.sign != '-' ? 1 : 0);
    digits.precision.reset();
    digits.fill = U'0';
    digits.align = '=';
    Characters text = FormatValue(interpreter_, integer, digits);
    FormatSpec outer;
    outer.width = spec.width;
    outer.align = spec.align == '<' ? '<' : '>';
    return FormatValue(interpreter_, interpreter_.Text(std::move(text)), outer);
  }

  Interpreter& interpreter_;
  const Value& arguments_;
  bool markup_;
  size_t next_ = 0;
  bool mapping_ = false;
};

}  // namespace

Value FormatBraces(Interpreter& interpreter, const Value& text,
                   const CallArguments& arguments) {
  BraceFormatter formatter(interpreter, arguments, text.IsMarkup());
  return MakeText(interpreter.budget(),
                  formatter.Format(text.characters(), /*levels=*/2),
                  text.IsMarkup());
}

Value FormatPercent(Interpreter& interpreter, const Value& text,
                    const Value& arguments) {
  PercentFormatter formatter(interpreter, arguments, text.IsMarkup());
  return MakeText(interpreter.budget(), formatter.Format(text.characters()),
                  text.IsMarkup());
}

}  // namespace espalier::jinja
