#ifndef ESPALIER_COMMON_CONFIG_CLOSEST_WORD_H_
#define ESPALIER_COMMON_CONFIG_CLOSEST_WORD_H_

#include <string>
#include <vector>

namespace espalier {

// "; did you mean --model?" for a word that is nearly one of `known`; empty if
// it is near none. One letter in three may be wrong; two letters that changed
// places are one. The word may also be the beginning of a known one.
std::string DidYouMean(const std::string& word,
                       const std::vector<std::string>& known);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CONFIG_CLOSEST_WORD_H_
