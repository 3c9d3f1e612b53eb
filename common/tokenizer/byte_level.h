#ifndef ESPALIER_COMMON_TOKENIZER_BYTE_LEVEL_H_
#define ESPALIER_COMMON_TOKENIZER_BYTE_LEVEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace espalier {

// GPT-2's printable alphabet, in which vocabularies write bytes. A byte that is
// printable in Latin-1 is written as itself, the other 68 as U+0100 and up ("Ġ"
// is the space). Radford et al., "Language Models are Unsupervised Multitask
// Learners", section 2.2.

// Returns the character, in UTF-8, that represents `byte`.
std::string ByteLevelCharacter(uint8_t byte);

// Returns the bytes that a vocabulary entry represents. An entry with a
// character outside the alphabet (some added tokens) represents its own UTF-8.
// REQUIRES: `token` is valid UTF-8.
std::string ByteLevelToBytes(std::string_view token);

// SentencePiece's spelling of a byte: "<0x0A>", and back.
std::string ByteFallbackToken(uint8_t byte);
std::optional<uint8_t> ByteOfFallback(std::string_view token);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_BYTE_LEVEL_H_
