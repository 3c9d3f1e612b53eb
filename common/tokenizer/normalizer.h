#ifndef ESPALIER_COMMON_TOKENIZER_NORMALIZER_H_
#define ESPALIER_COMMON_TOKENIZER_NORMALIZER_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/tokenizer/normal_forms.h"

namespace espalier {

// Does what happens to a text between added tokens, before it is cut into
// words: steps, one after the other. Immutable once it is built.
class Normalizer {
 public:
  enum class Kind {
    kForm,     // a normalization form
    kPrepend,  // `to` before a text that is not empty
    kReplace,  // every `from`, which is not empty, becomes `to`
    kStrip,    // no white space at the `left` end, the `right` end, or both
    kLower,    // lower case
  };
  struct Step {
    Kind kind = Kind::kForm;
    NormalForm form = NormalForm::kNfc;
    std::string from = {};
    std::string to = {};
    bool left = false;
    bool right = false;
  };

  void Add(Step step) { steps_.push_back(std::move(step)); }
  const std::vector<Step>& steps() const { return steps_; }

  // REQUIRES: `text` is valid UTF-8.
  std::string Normalize(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

// REQUIRES: `from` is not empty.
std::string ReplaceAll(std::string_view text, std::string_view from,
                       std::string_view to);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_NORMALIZER_H_
