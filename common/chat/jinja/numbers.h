#ifndef ESPALIER_COMMON_CHAT_JINJA_NUMBERS_H_
#define ESPALIER_COMMON_CHAT_JINJA_NUMBERS_H_

#include <optional>
#include <string>
#include <string_view>

#include "common/chat/jinja/value.h"

namespace espalier::jinja {

// Print numbers like Python.
std::string ToString(Int value);
std::string ToString(double value);  // repr: the shortest that reads back

// Read numbers like int(text, base) and float(text) of Python; null: not a
// number. Throws Error: an integer of more than 127 bits.
std::optional<Int> ParseInt(std::string_view text, int base);
std::optional<double> ParseFloat(std::string_view text);

// int(value) of a float. Throws Error: not finite, or more than 127 bits.
Int ToInt(double value);
// round(value, digits): halves go to the even neighbour.
double RoundTo(double value, int digits);

// Throw Error: more than 127 bits, or a division by zero.
Int Add(Int a, Int b);
Int Subtract(Int a, Int b);
Int Multiply(Int a, Int b);
Int FloorDivide(Int a, Int b);
Int Modulo(Int a, Int b);
Value Power(const Value& base, const Value& exponent);
double FloorDivide(double a, double b);
double Modulo(double a, double b);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_NUMBERS_H_
