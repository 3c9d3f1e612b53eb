#include "common/tokenizer/byte_level.h"

#include <array>
#include <charconv>

#include "common/base/utf8.h"

namespace espalier {
namespace {

constexpr char32_t kFirstStandIn = 0x100;
constexpr int16_t kNoByte = -1;

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         byte >= 0xAE;
}

constexpr auto kCharacters = [] {
  std::array<char32_t, 256> table{};
  char32_t stand_in = kFirstStandIn;
  for (int byte = 0; byte < 256; ++byte) {
    table[byte] = StandsForItself(byte) ? byte : stand_in++;
  }
  return table;
}();

constexpr auto kBytes = [] {
  std::array<int16_t, kFirstStandIn + 68> table{};
  table.fill(kNoByte);
  for (int byte = 0; byte < 256; ++byte) {
    table[kCharacters[byte]] = static_cast<int16_t>(byte);
  }
  return table;
}();

}  // namespace

std::string ByteLevelCharacter(uint8_t byte) {
  const char32_t c = kCharacters[byte];
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xC0 | (c >> 6)),
          static_cast<char>(0x80 | (c & 0x3F))};
}

std::string ByteLevelToBytes(std::string_view token) {
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const CodePoint c = CodePointAt(token, at);
    if (c.value >= kBytes.size() || kBytes[c.value] == kNoByte) {
      return std::string(token);
    }
    bytes.push_back(static_cast<char>(kBytes[c.value]));
    at += c.size;
  }
  return bytes;
}

std::string ByteFallbackToken(uint8_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string token = "<0x00>";
  token[3] = kDigits[byte >> 4];
  token[4] = kDigits[byte & 0xF];
  return token;
}

std::optional<uint8_t> ByteOfFallback(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') {
    return std::nullopt;
  }
  uint8_t byte = 0;
  const char* end = token.data() + 5;
  const auto parsed = std::from_chars(token.data() + 3, end, byte, 16);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return byte;
}

}  // namespace espalier
