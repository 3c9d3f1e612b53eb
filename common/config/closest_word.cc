#include "common/config/closest_word.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

// The fewest letters to insert, delete or replace, or pairs to exchange, that
// make `b` of `a`.
size_t EditDistance(const std::string& a, const std::string& b) {
  // [i][j]: of the first i letters of `a` and the first j of `b`.
  std::vector<std::vector<size_t>> distance(a.size() + 1,
                                            std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = i + j;
        continue;
      }
      const size_t differs = a[i - 1] == b[j - 1] ? 0 : 1;
      distance[i][j] = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1,
                                 distance[i - 1][j - 1] + differs});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

size_t LettersOf(const std::string& word) {
  return word.size() - std::min(word.find_first_not_of('-'), word.size());
}

}  // namespace

std::string DidYouMean(const std::string& word,
                       const std::vector<std::string>& known) {
  // A longer word would be no slip of the keyboard.
  constexpr size_t kLongest = 64, kShortestBeginning = 3;
  if (word.size() > kLongest || LettersOf(word) == 0) return "";
  std::string best;
  size_t least = std::numeric_limits<size_t>::max();
  for (const std::string& candidate : known) {
    const bool begins = LettersOf(word) >= kShortestBeginning &&
                        absl::StartsWith(candidate, word);
    const size_t distance = begins ? 1 : EditDistance(word, candidate);
    if (distance > std::max<size_t>(1, LettersOf(word) / 3)) continue;
    if (distance >= least) continue;
    least = distance;
    best = candidate;
  }
  return best.empty() ? "" : absl::StrCat("; did you mean ", best, "?");
}

}  // namespace espalier
