#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/format.h"
#include "common/chat/jinja/numbers.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

constexpr int kMaxPrecision = 1000;

[[noreturn]] void UnknownCode(char code, const Value& value) {
  throw Error(absl::StrCat("Unknown format code '", std::string(1, code),
                           "' for object of type '", TypeName(value), "'"));
}

std::string InBase(Int value, int base) {
  if (value == 0) return "0";
  std::string digits;
  for (; value != 0; value /= base) {
    const int digit = std::abs(static_cast<int>(value % base));
    digits.push_back("0123456789abcdef"[digit]);
  }
  std::reverse(digits.begin(), digits.end());
  return digits;
}

void ToUpperAscii(std::string& text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
}

std::string WholeDigits(Int value, const FormatSpec& spec,
                        std::string& prefix) {
  switch (spec.type) {
    case 'b':
      prefix = "0b";
      return InBase(value, 2);
    case 'o':
      prefix = "0o";
      return InBase(value, 8);
    case 'x':
    case 'X': {
      prefix = spec.type == 'x' ? "0x" : "0X";
      std::string digits = InBase(value, 16);
      if (spec.type == 'X') ToUpperAscii(digits);
      return digits;
    }
    default: {
      std::string digits = ToString(value);
      if (digits[0] == '-') digits.erase(0, 1);
      return digits;
    }
  }
}

// Digits of a positive number.
std::string RealDigits(double value, const FormatSpec& spec) {
  if (spec.type == 0 && !spec.precision.has_value()) return ToString(value);
  const bool percent = spec.type == '%';
  const char type = percent                              ? 'f'
                    : spec.type == 0 || spec.type == 'n' ? 'g'
                                                         : spec.type;
  int precision = spec.precision.value_or(6);
  if (precision > kMaxPrecision) throw Error("precision too big");
  if (type == 'g' && precision == 0) precision = 1;
  const std::string pattern =
      absl::StrCat(spec.alternate ? "%#.*" : "%.*", std::string(1, type));
  char buffer[kMaxPrecision + 400];
  std::snprintf(buffer, sizeof(buffer), pattern.c_str(), precision,
                percent ? value * 100 : value);
  std::string digits = buffer;
  const bool plain =
      digits.find_first_not_of("0123456789") == std::string::npos;
  if (spec.type == 0 && plain) digits += ".0";
  if (percent) digits += "%";
  return digits;
}

// Puts separators into the digits before the point, and zeros before them up
// to `width` characters.
std::string Grouped(std::string digits, const FormatSpec& spec, size_t width) {
  const size_t whole = std::min(
      digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string tail = digits.substr(whole);
  digits.resize(whole);
  if (spec.grouping == 0) {
    if (width > digits.size() + tail.size()) {
      digits.insert(0, width - digits.size() - tail.size(), '0');
    }
    return digits + tail;
  }
  const bool fours = spec.type == 'b' || spec.type == 'o' || spec.type == 'x' ||
                     spec.type == 'X';
  const size_t group = fours ? 4 : 3;
  const auto size = [&] {
    return digits.size() + (digits.size() - 1) / group + tail.size();
  };
  while (size() < width) digits.insert(0, 1, '0');
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % group == 0) out.push_back(spec.grouping);
    out.push_back(digits[i]);
  }
  return out + tail;
}

Characters Padded(Interpreter& interpreter, CharactersView text,
                  const FormatSpec& spec, char align) {
  if (text.size() >= spec.width) return Characters(text);
  interpreter.budget().SpendCharacters(spec.width);
  const size_t missing = spec.width - text.size();
  const size_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  Characters out(left, spec.fill);
  out.append(text);
  out.append(missing - left, spec.fill);
  return out;
}

Characters FormatNumber(Interpreter& interpreter, const Value& value,
                        const FormatSpec& spec) {
  const bool whole_type =
      std::string_view("bcdoxXn").find(spec.type) != std::string_view::npos;
  const bool whole = value.IsIntegral() && (spec.type == 0 || whole_type);
  if (!value.IsIntegral() && whole_type && spec.type != 'n') {
    UnknownCode(spec.type, value);
  }
  if (whole && spec.precision.has_value()) {
    throw Error("Precision not allowed in integer format specifier");
  }
  std::string prefix, digits;
  bool negative;
  if (whole) {
    negative = value.integer() < 0;
    digits = WholeDigits(value.integer(), spec, prefix);
    if (!spec.alternate) prefix.clear();
  } else {
    const double real = ToDouble(value);
    negative = std::signbit(real) && !std::isnan(real);
    digits = RealDigits(std::abs(real), spec);
    const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
    if (upper) ToUpperAscii(digits);
  }
  const std::string sign = negative           ? "-"
                           : spec.sign == '-' ? ""
                                              : std::string(1, spec.sign);
  const std::string head = sign + prefix;
  const char align = spec.align == 0 ? '>' : spec.align;
  interpreter.budget().SpendCharacters(spec.width);
  const bool zeros = align == '=' && spec.fill == U'0';
  digits =
      Grouped(std::move(digits), spec,
              zeros && spec.width > head.size() ? spec.width - head.size() : 0);
  if (align == '=') {
    FormatSpec rest = spec;
    rest.width = spec.width > head.size() ? spec.width - head.size() : 0;
    return FromUtf8(head) + Padded(interpreter, FromUtf8(digits), rest, '>');
  }
  return Padded(interpreter, FromUtf8(head + digits), spec, align);
}

Characters FormatText(Interpreter& interpreter, const Value& value,
                      const FormatSpec& spec) {
  if (spec.type != 0 && spec.type != 's') UnknownCode(spec.type, value);
  if (spec.align == '=') {
    throw Error("'=' alignment not allowed in string format specifier");
  }
  if (spec.sign != '-') {
    throw Error("Sign not allowed in string format specifier");
  }
  if (spec.alternate) {
    throw Error("Alternate form (#) not allowed in string format specifier");
  }
  if (spec.grouping != 0) {
    throw Error(absl::StrCat("Cannot specify '", std::string(1, spec.grouping),
                             "' with 's'."));
  }
  CharactersView text = value.characters();
  if (spec.precision.has_value()) {
    text = text.substr(0, static_cast<size_t>(*spec.precision));
  }
  return Padded(interpreter, text, spec, spec.align == 0 ? '<' : spec.align);
}

bool IsPlain(const FormatSpec& spec) {
  return spec.width == 0 && spec.type == 0 && !spec.precision.has_value() &&
         spec.sign == '-' && spec.grouping == 0 && spec.align == 0 &&
         !spec.alternate;
}

}  // namespace

Characters FormatValue(Interpreter& interpreter, const Value& value,
                       const FormatSpec& spec) {
  if (IsPlain(spec)) return Str(interpreter, value);
  if (value.IsText()) return FormatText(interpreter, value, spec);
  if (value.IsNumber()) {
    if (spec.type == 'c') {
      const Int code = value.IsIntegral() ? value.integer() : -1;
      if (code < 0 || code > 0x10FFFF) {
        throw Error("%c arg not in range(0x110000)");
      }
      return Padded(interpreter, Characters(1, static_cast<char32_t>(code)),
                    spec, spec.align == 0 ? '<' : spec.align);
    }
    constexpr std::string_view kTypes("\0bdoxXneEfFgG%", 14);
    if (kTypes.find(spec.type) == std::string_view::npos) {
      UnknownCode(spec.type, value);
    }
    // format(True, "5") is an integer's; format(True, "") is "True".
    return FormatNumber(interpreter, value, spec);
  }
  throw Error(absl::StrCat("unsupported format string passed to ",
                           TypeName(value), ".__format__"));
}

}  // namespace espalier::jinja
