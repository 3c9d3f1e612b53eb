#ifndef ESPALIER_COMMON_TOKENIZER_FINGERPRINT_H_
#define ESPALIER_COMMON_TOKENIZER_FINGERPRINT_H_

#include <cstdint>

#include "common/tokenizer/tokenizer_file.h"

namespace espalier {

// Hash of all that decides which ids a text becomes: equal on every machine,
// different for tokenizers that encode differently. Peers compare it before
// they exchange token ids. Guards against mix-ups, not against an adversary.
uint64_t FingerprintOf(const TokenizerFile& file);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_FINGERPRINT_H_
