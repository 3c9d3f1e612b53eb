#ifndef ESPALIER_COMMON_GRAMMAR_CODE_POINTS_H_
#define ESPALIER_COMMON_GRAMMAR_CODE_POINTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace espalier::grammar {

// A set of Unicode characters, which surrogates are not.
class CodePoints {
 public:
  struct Range {
    uint32_t first, last;
    friend bool operator==(const Range&, const Range&) = default;
  };

  CodePoints() = default;
  CodePoints(std::initializer_list<Range> ranges);
  static CodePoints All();

  void Add(uint32_t first, uint32_t last);
  void Add(const CodePoints& other);
  CodePoints Complement() const;
  CodePoints Intersection(const CodePoints& other) const;

  bool Contains(uint32_t character) const;
  bool empty() const { return ranges_.empty(); }
  // Ascending and apart.
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

// Returns the characters of valid UTF-8; nullopt: it is not.
std::optional<std::vector<uint32_t>> CharactersOf(absl::string_view utf8);
// REQUIRES: a character.
std::string Utf8Of(uint32_t character);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_CODE_POINTS_H_
