#include "common/chat/jinja/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"

namespace espalier::jinja {
namespace {

[[noreturn]] void TooLarge() {
  throw Error("an integer of more than 127 bits");
}

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 36;
}

// Returns the base that a prefix such as "0x" names; 0: none.
int PrefixBase(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (text[1] | 0x20) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 0;
  }
}

std::string_view Stripped(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\r\f\v";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

// Takes underscores between digits out; false: one is elsewhere.
bool TakeUnderscores(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() &&
                         DigitOf(text[i - 1]) < 36 && DigitOf(text[i + 1]) < 36;
    if (!between) return false;
  }
  return true;
}

Value IntegerPower(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) throw Error("0.0 cannot be raised to a negative power");
    return Value::Float(
        std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  Int result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1) result = Multiply(result, base);
    exponent /= 2;
    if (exponent > 0) base = Multiply(base, base);
  }
  return Value::Integer(result);
}

}  // namespace

std::string ToString(Int value) {
  std::string digits;
  const bool negative = value < 0;
  do {
    const int digit = static_cast<int>(value % 10);
    digits.push_back(static_cast<char>('0' + std::abs(digit)));
    value /= 10;
  } while (value != 0);
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string ToString(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                 std::chars_format::scientific);
  const std::string_view all(buffer, end.ptr - buffer);
  const size_t e = all.find('e');
  int exponent = 0;
  (void)std::from_chars(buffer + e + (all[e + 1] == '+' ? 2 : 1), end.ptr,
                        exponent);
  // Python writes an exponent below 1e-4 and from 1e16 on.
  if (exponent < -4 || exponent >= 16) {
    char tail[16];
    std::snprintf(tail, sizeof(tail), "e%c%02d", exponent < 0 ? '-' : '+',
                  std::abs(exponent));
    return absl::StrCat(std::string(all.substr(0, e)), tail);
  }
  const auto fixed = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                   std::chars_format::fixed);
  std::string text(buffer, fixed.ptr - buffer);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::optional<Int> ParseInt(std::string_view text, int base) {
  text = Stripped(text);
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    text.remove_prefix(1);
  }
  const int prefix = PrefixBase(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    text.remove_prefix(2);
    if (!text.empty() && text[0] == '_') text.remove_prefix(1);
    base = prefix;
  } else if (base == 0) {
    base = 10;
    const bool zeros = text.find_first_not_of("0_") == std::string_view::npos;
    if (!text.empty() && text[0] == '0' && !zeros) return std::nullopt;
  }
  std::string digits;
  if (text.empty() || !TakeUnderscores(text, digits)) return std::nullopt;
  Int value = 0;
  for (char c : digits) {
    const int digit = DigitOf(c);
    if (digit >= base) return std::nullopt;
    value = Add(Multiply(value, base), digit);
  }
  return negative ? -value : value;
}

std::optional<double> ParseFloat(std::string_view text) {
  std::string plain;
  if (!TakeUnderscores(Stripped(text), plain)) return std::nullopt;
  // strtod also reads hexadecimal and "nan(...)".
  if (plain.empty() || plain.find_first_of("xXpP()") != std::string::npos) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double value = std::strtod(plain.c_str(), &end);
  if (end != plain.c_str() + plain.size()) return std::nullopt;
  return value;
}

Int ToInt(double value) {
  if (std::isnan(value)) throw Error("cannot convert float NaN to integer");
  if (std::isinf(value)) {
    throw Error("cannot convert float infinity to integer");
  }
  if (std::abs(value) >= 0x1p126) TooLarge();
  return static_cast<Int>(value);
}

double RoundTo(double value, int digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits >= 0) {
    // printf rounds the exact value, as Python does.
    char buffer[700];
    std::snprintf(buffer, sizeof(buffer), "%.*f", digits, value);
    return std::strtod(buffer, nullptr);
  }
  const double scale = std::pow(10.0, -digits);
  const double scaled = value / scale;
  double rounded = std::round(scaled);
  if (std::abs(scaled - rounded) == 0.5) rounded = 2.0 * std::round(scaled / 2);
  return rounded * scale;
}

Int Add(Int a, Int b) {
  Int sum;
  if (__builtin_add_overflow(a, b, &sum)) TooLarge();
  return sum;
}

Int Subtract(Int a, Int b) {
  Int difference;
  if (__builtin_sub_overflow(a, b, &difference)) TooLarge();
  return difference;
}

Int Multiply(Int a, Int b) {
  Int product;
  if (__builtin_mul_overflow(a, b, &product)) TooLarge();
  return product;
}

Int FloorDivide(Int a, Int b) {
  if (b == 0) throw Error("integer division or modulo by zero");
  if (b == -1) return Subtract(0, a);
  const Int quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

Int Modulo(Int a, Int b) {
  if (b == 0) throw Error("integer modulo by zero");
  if (b == -1) return 0;
  const Int rest = a % b;
  return (rest != 0 && (rest < 0) != (b < 0)) ? rest + b : rest;
}

double Modulo(double a, double b) {
  if (b == 0) throw Error("float modulo");
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double FloorDivide(double a, double b) {
  if (b == 0) throw Error("float floor division by zero");
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value Power(const Value& base, const Value& exponent) {
  if (base.IsIntegral() && exponent.IsIntegral()) {
    return IntegerPower(base.integer(), exponent.integer());
  }
  const double x = ToDouble(base);
  const double y = ToDouble(exponent);
  if (x == 0 && y < 0) throw Error("0.0 cannot be raised to a negative power");
  if (x < 0 && std::isfinite(x) && std::isfinite(y) && std::trunc(y) != y) {
    throw Error("complex numbers are not supported");
  }
  const double result = std::pow(x, y);
  if (std::isinf(result) && std::isfinite(x) && std::isfinite(y)) {
    throw Error("(34, 'Numerical result out of range')");
  }
  return Value::Float(result);
}

}  // namespace espalier::jinja
