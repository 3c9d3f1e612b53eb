#include "common/grammar/code_points.h"

#include <algorithm>

namespace espalier::grammar {
namespace {

constexpr uint32_t kLast = 0x10FFFF;
constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;

}  // namespace

CodePoints::CodePoints(std::initializer_list<Range> ranges) {
  for (const Range& range : ranges) Add(range.first, range.last);
}

CodePoints CodePoints::All() { return {{0, kLast}}; }

void CodePoints::Add(uint32_t first, uint32_t last) {
  last = std::min(last, kLast);
  if (first > last) return;
  if (first < kFirstSurrogate && last > kLastSurrogate) {
    Add(first, kFirstSurrogate - 1);
    first = kLastSurrogate + 1;
  } else if (first <= kLastSurrogate && last >= kFirstSurrogate) {
    if (first < kFirstSurrogate) Add(first, kFirstSurrogate - 1);
    if (last > kLastSurrogate) Add(kLastSurrogate + 1, last);
    return;
  }
  std::vector<Range> kept;
  for (const Range& range : ranges_) {
    // Neighbours become one, except around the surrogates.
    const bool touches = range.first <= last + 1 && first <= range.last + 1;
    if (touches) {
      first = std::min(first, range.first);
      last = std::max(last, range.last);
    } else {
      kept.push_back(range);
    }
  }
  kept.push_back({first, last});
  std::sort(kept.begin(), kept.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  ranges_ = std::move(kept);
}

void CodePoints::Add(const CodePoints& other) {
  for (const Range& range : other.ranges_) Add(range.first, range.last);
}

CodePoints CodePoints::Complement() const {
  CodePoints rest;
  uint32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) rest.Add(next, range.first - 1);
    next = range.last + 1;
  }
  rest.Add(next, kLast);
  return rest;
}

CodePoints CodePoints::Intersection(const CodePoints& other) const {
  CodePoints common;
  for (const Range& a : ranges_) {
    for (const Range& b : other.ranges_) {
      common.Add(std::max(a.first, b.first), std::min(a.last, b.last));
    }
  }
  return common;
}

bool CodePoints::Contains(uint32_t character) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    return range.first <= character && character <= range.last;
  });
}

std::optional<std::vector<uint32_t>> CharactersOf(absl::string_view utf8) {
  std::vector<uint32_t> characters;
  for (size_t i = 0; i < utf8.size();) {
    const auto byte = static_cast<uint8_t>(utf8[i]);
    const int more = byte < 0x80             ? 0
                     : (byte & 0xE0) == 0xC0 ? 1
                     : (byte & 0xF0) == 0xE0 ? 2
                     : (byte & 0xF8) == 0xF0 ? 3
                                             : -1;
    if (more < 0 || i + more >= utf8.size()) return std::nullopt;
    uint32_t character = more == 0 ? byte : byte & (0x3F >> more);
    for (int k = 1; k <= more; ++k) {
      const auto next = static_cast<uint8_t>(utf8[i + k]);
      if ((next & 0xC0) != 0x80) return std::nullopt;
      character = character << 6 | (next & 0x3F);
    }
    constexpr uint32_t kMin[] = {0, 0x80, 0x800, 0x10000};
    if (character < kMin[more] || !CodePoints::All().Contains(character)) {
      return std::nullopt;
    }
    characters.push_back(character);
    i += more + 1;
  }
  return characters;
}

std::string Utf8Of(uint32_t character) {
  const auto tail = [&](int shift) {
    return static_cast<char>(0x80 | (character >> shift & 0x3F));
  };
  if (character < 0x80) return {static_cast<char>(character)};
  if (character < 0x800) {
    return {static_cast<char>(0xC0 | character >> 6), tail(0)};
  }
  if (character < 0x10000) {
    return {static_cast<char>(0xE0 | character >> 12), tail(6), tail(0)};
  }
  return {static_cast<char>(0xF0 | character >> 18), tail(12), tail(6),
          tail(0)};
}

}  // namespace espalier::grammar
