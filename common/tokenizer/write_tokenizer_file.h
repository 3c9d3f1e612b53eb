#ifndef ESPALIER_COMMON_TOKENIZER_WRITE_TOKENIZER_FILE_H_
#define ESPALIER_COMMON_TOKENIZER_WRITE_TOKENIZER_FILE_H_

#include <string>

#include "common/tokenizer/tokenizer_file.h"

namespace espalier {

// Returns a tokenizer.json with these parts: the opposite of
// ParseTokenizerFile, for programs that read nothing else. REQUIRES: tokens,
// added tokens and patterns are UTF-8.
std::string WriteTokenizerFile(const TokenizerFile& file);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_WRITE_TOKENIZER_FILE_H_
