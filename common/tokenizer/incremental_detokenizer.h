#ifndef ESPALIER_COMMON_TOKENIZER_INCREMENTAL_DETOKENIZER_H_
#define ESPALIER_COMMON_TOKENIZER_INCREMENTAL_DETOKENIZER_H_

#include <string>

#include "common/base/utf8.h"
#include "common/speculation/types.h"
#include "common/tokenizer/tokenizer.h"

namespace espalier {

// Decodes one stream of tokens incrementally, in whole characters: bytes wait
// for the rest of their character. The results of Push and Flush, concatenated,
// equal Tokenizer::Decode of all tokens, but for a space that SentencePiece
// puts before a text: the stream continues a prompt, and a space is its own.
// The work per token is proportional to its bytes. One per stream, one thread
// at a time; borrows the tokenizer.
class IncrementalDetokenizer {
 public:
  struct Options {
    bool skip_special = true;
  };

  IncrementalDetokenizer(const Tokenizer* tokenizer, Options options)
      : tokenizer_(tokenizer), options_(options) {}

  // Adds a token and returns the text that `token` completes; may be empty.
  std::string Push(TokenId token);

  // Ends the stream. Returns the rest, at most one U+FFFD.
  std::string Flush();

 private:
  const Tokenizer* tokenizer_;
  Options options_;
  Utf8Repair repair_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_INCREMENTAL_DETOKENIZER_H_
