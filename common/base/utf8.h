#ifndef ESPALIER_COMMON_BASE_UTF8_H_
#define ESPALIER_COMMON_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace espalier {

// Returns the number of bytes of the well-formed character at `at` <
// text.size(); 0: not well-formed.
size_t CharacterSize(std::string_view text, size_t at);

// Turns any bytes, however they are cut into pieces, into valid UTF-8. Each
// maximal subpart of an ill-formed sequence becomes one U+FFFD (Unicode
// Standard, section 3.9), as in Python's bytes.decode("utf-8", "replace") and
// Rust's String::from_utf8_lossy. For one thread.
class Utf8Repair {
 public:
  // Appends the complete characters to `out`; holds back at most three bytes.
  void Push(std::string_view bytes, std::string& out);

  // Ends the text: an incomplete character becomes U+FFFD.
  void Flush(std::string& out);

 private:
  std::string pending_;  // a proper prefix of a well-formed sequence
};

std::string RepairUtf8(std::string_view bytes);

struct CodePoint {
  char32_t value = 0;
  size_t size = 0;  // bytes
};

// REQUIRES: `text` is valid UTF-8 and a character begins at byte `at`.
CodePoint CodePointAt(std::string_view text, size_t at);

// REQUIRES: `c` is a code point and not a surrogate.
void AppendUtf8(char32_t c, std::string& text);

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_UTF8_H_
