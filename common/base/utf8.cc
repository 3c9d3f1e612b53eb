#include "common/base/utf8.h"

#include <cstdint>

namespace espalier {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Returns the number of bytes of a character with this first byte; 0 if there
// is none.
size_t SequenceSize(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  if (lead < 0xF5) return 4;
  return 0;
}

// Returns whether `byte` may be byte number `index` > 0 of a character that
// begins with `lead`. Unicode Standard, table 3-7.
bool Continues(uint8_t lead, size_t index, uint8_t byte) {
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (index == 1) {
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  return low <= byte && byte <= high;
}

}  // namespace

size_t CharacterSize(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  const size_t size = SequenceSize(lead);
  if (text.size() - at < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if (!Continues(lead, i, static_cast<uint8_t>(text[at + i]))) return 0;
  }
  return size;
}

void Utf8Repair::Push(std::string_view bytes, std::string& out) {
  for (char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    if (!pending_.empty()) {
      const auto lead = static_cast<uint8_t>(pending_[0]);
      if (Continues(lead, pending_.size(), byte)) {
        pending_.push_back(c);
        if (pending_.size() == SequenceSize(lead)) {
          out.append(pending_);
          pending_.clear();
        }
        continue;
      }
      Flush(out);
    }
    const size_t size = SequenceSize(byte);
    if (size == 1) {
      out.push_back(c);
    } else if (size == 0) {
      out.append(kReplacement);
    } else {
      pending_.push_back(c);
    }
  }
}

void Utf8Repair::Flush(std::string& out) {
  if (pending_.empty()) return;
  out.append(kReplacement);
  pending_.clear();
}

std::string RepairUtf8(std::string_view bytes) {
  Utf8Repair repair;
  std::string text;
  text.reserve(bytes.size());
  repair.Push(bytes, text);
  repair.Flush(text);
  return text;
}

CodePoint CodePointAt(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  const size_t size = SequenceSize(lead);
  if (size == 1) return {lead, 1};
  // The first byte has 7 - size bits of the value, each further byte six.
  char32_t value = lead & (0x7F >> size);
  for (size_t i = 1; i < size; ++i) {
    value = (value << 6) | (static_cast<uint8_t>(text[at + i]) & 0x3F);
  }
  return {value, size};
}

void AppendUtf8(char32_t c, std::string& text) {
  const auto add = [&](char32_t byte) {
    text.push_back(static_cast<char>(byte));
  };
  const auto follower = [&](int shift) { add(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    add(c);
    return;
  }
  if (c < 0x800) {
    add(0xC0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      add(0xE0 | (c >> 12));
    } else {
      add(0xF0 | (c >> 18));
      follower(12);
    }
    follower(6);
  }
  follower(0);
}

}  // namespace espalier
