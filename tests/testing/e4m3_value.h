#ifndef ESPALIER_TESTS_TESTING_E4M3_VALUE_H_
#define ESPALIER_TESTS_TESTING_E4M3_VALUE_H_

#include <cmath>
#include <cstdint>

namespace espalier {

// Returns what a code of e4m3 stands for, by the type's definition. NaN, code
// 127 and 255, is 480 here.
inline double E4m3Value(uint8_t code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const double size = exponent == 0 ? std::ldexp(fraction, -9)
                                    : std::ldexp(8 + fraction, exponent - 10);
  return code < 128 ? size : -size;
}

}  // namespace espalier

#endif  // ESPALIER_TESTS_TESTING_E4M3_VALUE_H_
