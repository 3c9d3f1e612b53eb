// The filters of texts and numbers.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/chat/jinja/arguments.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/filters.h"
#include "common/chat/jinja/format.h"
#include "common/chat/jinja/markup.h"
#include "common/chat/jinja/members.h"
#include "common/chat/jinja/numbers.h"
#include "common/chat/jinja/operators.h"
#include "common/chat/jinja/print.h"
#include "common/chat/jinja/text_operations.h"

namespace espalier::jinja {
namespace {

// markupsafe.soft_str: a text, still Markup if it was.
Value SoftText(Interpreter& in, const Value& subject) {
  return subject.IsText() ? subject : in.Text(Str(in, subject));
}

// Returns a filter that is a method of the subject's text.
template <const char* kName>
Value AsMethod(Interpreter& in, const Value& subject, CallArguments given) {
  return FindTextMethod(kName)(in, SoftText(in, subject), std::move(given));
}
constexpr char kUpper[] = "upper";
constexpr char kLower[] = "lower";
constexpr char kCapitalize[] = "capitalize";
constexpr char kStrip[] = "strip";

Value Trim(Interpreter& in, const Value& subject, CallArguments given) {
  // The filter's parameter has a name, the method's has none.
  const Arguments arguments("trim", "chars?", std::move(given));
  CallArguments forwarded;
  if (arguments.Find(0) != nullptr) {
    forwarded.positional.push_back(*arguments.Find(0));
  }
  return AsMethod<kStrip>(in, subject, std::move(forwarded));
}

Value CenterFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("center", "width?", std::move(given));
  const Value text = SoftText(in, subject);
  return MakeText(in.budget(),
                  Center(in, text.characters(), arguments.IntOr(0, 80), U' '),
                  text.IsMarkup());
}

Value TitleFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("title", "", std::move(given));
  const Characters text = Str(in, subject);
  Characters out;
  const auto separates = [](char32_t c) {
    return IsSpace(c) || CharactersView(U"-({[<").find(Bare(c)) != kNowhere;
  };
  for (size_t at = 0; at < text.size();) {
    const bool separator = separates(text[at]);
    size_t end = at;
    while (end < text.size() && separates(text[end]) == separator) ++end;
    out.append(Upper(CharactersView(text).substr(at, 1)));
    out.append(Lower(CharactersView(text).substr(at + 1, end - at - 1)));
    at = end;
  }
  return in.Text(std::move(out));
}

Value ReplaceFilter(Interpreter& in, const Value& subject,
                    CallArguments given) {
  const Arguments arguments("replace", "old new count?", std::move(given));
  const Int count =
      arguments.FindSome(2) == nullptr ? -1 : arguments.IntOr(2, -1);
  return in.Text(Replace(in, Str(in, subject), Str(in, arguments.At(0)),
                         Str(in, arguments.At(1)), count));
}

Value Indent(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("indent", "width? first? blank?", std::move(given));
  RequireDefined(subject);
  if (!subject.IsText()) {
    throw Error(absl::StrCat("unsupported operand type(s) for +=: '",
                             TypeName(subject), "' and 'str'"));
  }
  Characters indention;
  const Value* width = arguments.Find(0);
  if (width != nullptr && width->IsText()) {
    indention = width->characters();
  } else {
    const Int spaces = std::clamp<Int>(arguments.IntOr(0, 4), 0, Int{1} << 40);
    in.budget().SpendCharacters(static_cast<size_t>(spaces));
    indention.assign(static_cast<size_t>(spaces), U' ');
  }
  const bool blank = arguments.TruthOr(2, false);
  const Characters text = subject.characters() + U"\n";
  const std::vector<CharactersView> lines = SplitLines(text, false);
  Characters out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.push_back(U'\n');
    const bool indents =
        i == 0 ? arguments.TruthOr(1, false) : blank || !lines[i].empty();
    in.budget().SpendCharacters(lines[i].size() +
                                (indents ? indention.size() : 0));
    if (indents) out.append(indention);
    out.append(lines[i]);
  }
  return MakeText(in.budget(), std::move(out), subject.IsMarkup());
}

Value Truncate(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("truncate", "length? killwords? end? leeway?",
                            std::move(given));
  const Int length = arguments.IntOr(0, 255);
  const Characters end =
      arguments.Find(2) == nullptr ? Characters(U"...") : arguments.TextAt(2);
  const Int leeway =
      arguments.FindSome(3) == nullptr ? 5 : arguments.IntOr(3, 5);
  const auto end_size = static_cast<Int>(end.size());
  if (length < end_size) {
    throw Error(absl::StrCat("expected length >= ", ToString(end_size),
                             ", got ", ToString(length)));
  }
  if (leeway < 0) {
    throw Error(absl::StrCat("expected leeway >= 0, got ", ToString(leeway)));
  }
  if (Length(subject) <= Add(length, leeway)) return subject;
  if (!subject.IsText()) {
    throw Error(absl::StrCat("truncate cuts no ", TypeName(subject)));
  }
  const Characters& text = subject.characters();
  Characters out = text.substr(0, static_cast<size_t>(length - end_size));
  if (!arguments.TruthOr(1, false)) {
    const size_t space = FindLast(in, out, U" ", out.size());
    if (space != kNowhere) out.resize(space);
  }
  return in.Text(out + end);
}

Value WordCount(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("wordcount", "", std::move(given));
  Int count = 0;
  bool in_word = false;
  for (char32_t c : Str(in, subject)) {
    const bool word = IsAlnum(c) || Bare(c) == U'_';
    if (word && !in_word) ++count;
    in_word = word;
  }
  return Value::Integer(count);
}

Value FormatFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Value text = SoftText(in, subject);
  if (!given.named.empty()) {
    if (!given.positional.empty()) {
      throw Error(
          "can't handle positional and keyword arguments at the same time");
    }
    Dict named;
    for (auto& [name, value] : given.named) {
      named.Set(in.budget(), in.Text(FromUtf8(name)), std::move(value));
    }
    return FormatPercent(in, text, MakeDict(in.budget(), std::move(named)));
  }
  return FormatPercent(in, text,
                       MakeTuple(in.budget(), std::move(given.positional)));
}

Value Safe(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("safe", "", std::move(given));
  return MakeText(in.budget(), Str(in, subject), /*markup=*/true);
}

Value EscapeFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("escape", "", std::move(given));
  return MakeText(in.budget(), EscapeUnlessMarkup(in, subject), true);
}

Value ForceEscape(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("forceescape", "", std::move(given));
  return MakeText(in.budget(), Escape(in, Str(in, subject)), true);
}

Value StringFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("string", "", std::move(given));
  return SoftText(in, subject);
}

Value UrlEncode(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("urlencode", "", std::move(given));
  const auto quote = [&](const Value& value, bool in_query) {
    Characters out;
    for (char32_t marked : Str(in, value)) {
      const char32_t c = Bare(marked);
      const bool plain =
          c < 0x80 &&
          (IsAlnum(c) || CharactersView(U"_.-~").find(c) != kNowhere);
      if (plain || (c == U'/' && !in_query)) {
        out.push_back(marked);
        continue;
      }
      if (c == U' ' && in_query) {
        out.push_back(Marked(U'+', marked));
        continue;
      }
      for (unsigned char byte : ToUtf8({&c, 1})) {
        for (char digit : absl::StrFormat("%%%02X", byte)) {
          out.push_back(Marked(static_cast<char32_t>(digit), marked));
        }
      }
    }
    return out;
  };
  const bool pairs = !subject.IsText() && in.IterateOrNull(subject) != nullptr;
  if (!pairs) return in.Text(quote(subject, false));
  std::vector<Value> items;
  if (subject.IsDict()) {
    for (const auto& [key, value] : subject.dict().items()) {
      items.push_back(MakeTuple(in.budget(), {key, value}));
    }
  } else {
    items = in.Items(subject);
  }
  Characters out;
  for (const Value& item : items) {
    const std::vector<Value> pair = in.Items(item);
    if (pair.size() != 2) throw Error("urlencode wants pairs");
    if (!out.empty()) out.push_back(U'&');
    out.append(quote(pair[0], true));
    out.push_back(U'=');
    out.append(quote(pair[1], true));
  }
  return in.Text(std::move(out));
}

std::optional<double> RealOf(Interpreter& in, const Value& value) {
  RequireDefined(value);
  if (value.IsNumber()) return ToDouble(value);
  if (!value.IsText()) return std::nullopt;
  return ParseFloat(ToUtf8(Strip(Str(in, value), std::nullopt, {})));
}

Value FileSize(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("filesizeformat", "binary?", std::move(given));
  const bool binary = arguments.TruthOr(0, false);
  const std::optional<double> number = RealOf(in, subject);
  if (!number.has_value()) throw Error("filesizeformat wants a number");
  const double bytes = *number;
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return in.Text("1 Byte");
  if (bytes < base) {
    return in.Text(absl::StrCat(ToString(ToInt(bytes)), " Bytes"));
  }
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  size_t i = 0;
  do {
    unit *= base;
  } while (bytes >= unit && ++i < kPrefixes.size() - 1);
  if (bytes >= unit) i = kPrefixes.size() - 1;
  std::string prefix(1, kPrefixes[i]);
  if (binary) prefix = i == 0 ? "Ki" : absl::StrCat(prefix, "i");
  return in.Text(absl::StrFormat("%.1f %sB", base * bytes / unit, prefix));
}

Value ToJsonFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("tojson",
                            "ensure_ascii? indent? separators? sort_keys?",
                            std::move(given));
  JsonOptions options;
  options.ensure_ascii = arguments.TruthOr(0, false);
  options.sort_keys = arguments.TruthOr(3, false);
  const Value* indent = arguments.FindSome(1);
  if (indent != nullptr && indent->IsText()) {
    options.indent = indent->characters();
  } else if (indent != nullptr) {
    const Int width = std::clamp<Int>(arguments.IntOr(1, 0), 0, Int{1} << 40);
    in.budget().SpendCharacters(static_cast<size_t>(width));
    options.indent = Characters(static_cast<size_t>(width), U' ');
  }
  if (arguments.FindSome(2) != nullptr) {
    const std::vector<Value> separators = in.Items(arguments.At(2));
    if (separators.size() != 2 || !separators[0].IsText() ||
        !separators[1].IsText()) {
      throw Error("tojson: separators must be two texts");
    }
    options.item_separator = separators[0].characters();
    options.key_separator = separators[1].characters();
  }
  return in.Text(ToJson(in, subject, options));
}

// int(value), or null where Python raises TypeError or ValueError.
std::optional<Int> IntegerOf(Interpreter& in, const Value& value, Int base) {
  if (value.IsIntegral()) return value.integer();
  if (value.IsText()) {
    if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
    return ParseInt(ToUtf8(Strip(Str(in, value), std::nullopt, {})),
                    static_cast<int>(base));
  }
  if (!value.IsFloat() || !std::isfinite(value.real())) return std::nullopt;
  return ToInt(value.real());
}

Value IntFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("int", "default? base?", std::move(given));
  RequireDefined(subject);
  const bool infinite = subject.IsFloat() && std::isinf(subject.real());
  if (infinite) throw Error("cannot convert float infinity to integer");
  std::optional<Int> value = IntegerOf(in, subject, arguments.IntOr(1, 10));
  if (!value.has_value()) {
    const std::optional<double> real = RealOf(in, subject);
    if (real.has_value() && std::isfinite(*real)) value = ToInt(*real);
  }
  if (value.has_value()) return Value::Integer(*value);
  return arguments.Find(0) == nullptr ? Value::Integer(0) : *arguments.Find(0);
}

Value FloatFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("float", "default?", std::move(given));
  const std::optional<double> value = RealOf(in, subject);
  if (value.has_value()) return Value::Float(*value);
  return arguments.Find(0) == nullptr ? Value::Float(0) : *arguments.Find(0);
}

Value Abs(Interpreter&, const Value& subject, CallArguments given) {
  const Arguments arguments("abs", "", std::move(given));
  RequireDefined(subject);
  if (subject.IsFloat()) return Value::Float(std::abs(subject.real()));
  if (!subject.IsIntegral()) {
    throw Error(
        absl::StrCat("bad operand type for abs(): '", TypeName(subject), "'"));
  }
  const Int value = subject.integer();
  return Value::Integer(value < 0 ? Subtract(0, value) : value);
}

Value RoundInteger(Int value, Int digits) {
  if (digits >= 0) return Value::Integer(value);
  if (digits < -38) return Value::Integer(0);
  const Int scale =
      Power(Value::Integer(10), Value::Integer(-digits)).integer();
  const Int rest = Modulo(value, scale);
  Int floor = Subtract(value, rest);
  const bool odd = Modulo(FloorDivide(value, scale), 2) == 1;
  const Int twice = Multiply(rest, 2);
  if (twice > scale || (twice == scale && odd)) floor = Add(floor, scale);
  return Value::Integer(floor);
}

Value Round(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("round", "precision? method?", std::move(given));
  const std::string method = arguments.Find(1) == nullptr
                                 ? "common"
                                 : ToUtf8(Str(in, arguments.At(1)));
  if (method != "common" && method != "ceil" && method != "floor") {
    throw Error("method must be common, ceil or floor");
  }
  RequireDefined(subject);
  if (!subject.IsNumber()) {
    throw Error(absl::StrCat("type ", TypeName(subject),
                             " doesn't define __round__ method"));
  }
  const Int digits = arguments.IntOr(0, 0);
  if (method == "common") {
    if (subject.IsIntegral()) return RoundInteger(subject.integer(), digits);
    return Value::Float(RoundTo(
        subject.real(), static_cast<int>(std::clamp<Int>(digits, -400, 400))));
  }
  const Value scale = Power(Value::Integer(10), Value::Integer(digits));
  const Value scaled = Arithmetic(in, "*", subject, scale);
  Int whole;
  if (scaled.IsIntegral()) {
    whole = scaled.integer();
  } else {
    whole = ToInt(method == "ceil" ? std::ceil(scaled.real())
                                   : std::floor(scaled.real()));
  }
  return Arithmetic(in, "/", Value::Integer(whole), scale);
}

constexpr std::pair<std::string_view, FilterFunction> kTextFilters[] = {
    {"abs", Abs},
    {"capitalize", AsMethod<kCapitalize>},
    {"center", CenterFilter},
    {"e", EscapeFilter},
    {"escape", EscapeFilter},
    {"filesizeformat", FileSize},
    {"float", FloatFilter},
    {"forceescape", ForceEscape},
    {"format", FormatFilter},
    {"indent", Indent},
    {"int", IntFilter},
    {"lower", AsMethod<kLower>},
    {"replace", ReplaceFilter},
    {"round", Round},
    {"safe", Safe},
    {"string", StringFilter},
    {"title", TitleFilter},
    {"tojson", ToJsonFilter},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", AsMethod<kUpper>},
    {"urlencode", UrlEncode},
    {"wordcount", WordCount},
};

}  // namespace

FilterFunction FindTextFilter(std::string_view name) {
  for (const auto& [known, filter] : kTextFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace espalier::jinja
