#include "common/base/printable.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace espalier {
namespace {

uint8_t ByteAt(absl::string_view text, size_t at) {
  return static_cast<uint8_t>(text[at]);
}

// Bytes of the well-formed character at `at`; 0: not well-formed. From table
// 3-7 of the Unicode Standard.
size_t CharacterSize(absl::string_view text, size_t at) {
  const uint8_t first = ByteAt(text, at);
  if (first < 0x80) return 1;
  size_t size = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;  // largest second byte
  if (first >= 0xC2 && first <= 0xDF) {
    size = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    size = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    size = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  }
  if (size == 0 || text.size() - at < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    const uint8_t next = ByteAt(text, at + i);
    if (next < low || next > high) return 0;
    low = 0x80;
    high = 0xBF;
  }
  return size;
}

// REQUIRES: a well-formed character begins at `at`.
bool IsControl(absl::string_view text, size_t at) {
  const uint8_t first = ByteAt(text, at);
  if (first < 0x80) return first < 0x20 || first == 0x7F;
  return first == 0xC2 && ByteAt(text, at + 1) < 0xA0;
}

}  // namespace

size_t FindInvalidUtf8(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t size = CharacterSize(text, at);
    if (size == 0) return at;
    at += size;
  }
  return absl::string_view::npos;
}

bool IsPrintable(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t size = CharacterSize(text, at);
    if (size == 0 || IsControl(text, at)) return false;
    at += size;
  }
  return true;
}

std::string Printable(absl::string_view text, size_t max_bytes) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t size = CharacterSize(text, at);
    const size_t step = size == 0 ? 1 : size;
    if (at + step > max_bytes) break;
    if (size == 0 || IsControl(text, at)) {
      for (size_t i = 0; i < step; ++i) {
        absl::StrAppendFormat(&out, "\\x%02x", ByteAt(text, at + i));
      }
    } else {
      absl::StrAppend(&out, text.substr(at, size));
    }
    at += step;
  }
  if (at < text.size()) absl::StrAppend(&out, "... (", text.size(), " bytes)");
  return out;
}

}  // namespace espalier
