#ifndef ESPALIER_COORDINATOR_CLI_CLOSEST_WORD_H_
#define ESPALIER_COORDINATOR_CLI_CLOSEST_WORD_H_

#include <string>
#include <vector>

namespace espalier::cli {

// "; did you mean --model?" for a word that is nearly one of `known`; empty if
// it is near none. One letter in three may be wrong; two letters that changed
// places are one. The word may also be the beginning of a known one.
std::string DidYouMean(const std::string& word,
                       const std::vector<std::string>& known);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_CLOSEST_WORD_H_
