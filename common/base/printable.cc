#include "common/base/printable.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/utf8.h"

namespace espalier {
namespace {

uint8_t ByteAt(absl::string_view text, size_t at) {
  return static_cast<uint8_t>(text[at]);
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
    const size_t size = CharacterSize({text.data(), text.size()}, at);
    if (size == 0) return at;
    at += size;
  }
  return absl::string_view::npos;
}

bool IsPrintable(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t size = CharacterSize({text.data(), text.size()}, at);
    if (size == 0 || IsControl(text, at)) return false;
    at += size;
  }
  return true;
}

std::string Printable(absl::string_view text, size_t max_bytes) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t size = CharacterSize({text.data(), text.size()}, at);
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
