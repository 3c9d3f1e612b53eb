#ifndef ESPALIER_COMMON_TOKENIZER_FINGERPRINT_H_
#define ESPALIER_COMMON_TOKENIZER_FINGERPRINT_H_

#include <cstdint>

#include "common/tokenizer/tokenizer_file.h"

namespace espalier {

// Hash of everything that determines the ids of a text: equal on every machine,
// different for tokenizers that encode differently. Peers compare it before
// they exchange token ids. Detects mix-ups; no protection against an adversary.
uint64_t FingerprintOf(const TokenizerFile& file);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_FINGERPRINT_H_
