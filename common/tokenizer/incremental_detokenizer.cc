#include "common/tokenizer/incremental_detokenizer.h"

namespace espalier {

std::string IncrementalDetokenizer::Push(TokenId token) {
  std::string text;
  if (options_.skip_special && tokenizer_->IsSpecial(token)) return text;
  repair_.Push(tokenizer_->BytesOf(token), text);
  return text;
}

std::string IncrementalDetokenizer::Flush() {
  std::string text;
  repair_.Flush(text);
  return text;
}

}  // namespace espalier
