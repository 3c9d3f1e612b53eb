#ifndef ESPALIER_TESTS_COMMON_GRAMMAR_TEST_VOCABULARY_H_
#define ESPALIER_TESTS_COMMON_GRAMMAR_TEST_VOCABULARY_H_

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/grammar/grammar.h"

namespace espalier::grammar {

// Tokens 0 to 255 are the bytes, then `words`, then two of end of sequence, and
// a last one that is no text.
inline Vocabulary ByteVocabulary(const std::vector<std::string>& words = {}) {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  }
  vocabulary.tokens.insert(vocabulary.tokens.end(), words.begin(), words.end());
  const TokenId end = static_cast<TokenId>(vocabulary.tokens.size());
  vocabulary.end_tokens = {end, end + 1};
  vocabulary.tokens.insert(vocabulary.tokens.end(), {"<end>", "<eot>", ""});
  return vocabulary;
}

// Returns a vocabulary as large as a real one: words of letters, digits and
// marks.
inline Vocabulary LargeVocabulary(int words) {
  constexpr std::string_view kCharacters =
      " abcdefghijklmnopqrstuvwxyzABCDEF0123456789\"{}[]:,.\n";
  std::mt19937 random(1);
  std::vector<std::string> made;
  for (int i = 0; i < words; ++i) {
    std::string& word = made.emplace_back();
    for (int n = 2 + static_cast<int>(random() % 7); n > 0; --n) {
      word += kCharacters[random() % kCharacters.size()];
    }
  }
  return ByteVocabulary(made);
}

// Returns a text as bytes.
inline std::vector<TokenId> Bytes(std::string_view text) {
  std::vector<TokenId> tokens;
  for (char c : text) tokens.push_back(static_cast<uint8_t>(c));
  return tokens;
}

}  // namespace espalier::grammar

#endif  // ESPALIER_TESTS_COMMON_GRAMMAR_TEST_VOCABULARY_H_
