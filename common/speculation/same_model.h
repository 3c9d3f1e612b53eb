#ifndef ESPALIER_COMMON_SPECULATION_SAME_MODEL_H_
#define ESPALIER_COMMON_SPECULATION_SAME_MODEL_H_

#include "common/speculation/messages.h"

namespace espalier {

// Returns true if both models continue a text in the same way.
inline bool SameModel(const ModelIdentity& a, const ModelIdentity& b) {
  return a.name == b.name && a.vocab_size == b.vocab_size &&
         a.tokenizer_fingerprint == b.tokenizer_fingerprint &&
         a.weights_fingerprint == b.weights_fingerprint;
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_SAME_MODEL_H_
