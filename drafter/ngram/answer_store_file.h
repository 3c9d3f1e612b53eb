// The file of a `suffix` drafter's earlier answers. Little endian:
//   magic "ESPANSWR"                                         8 bytes
//   version = 1                                              uint32
//   vocab_size, tokenizer_fingerprint                        2 x uint64
//   num_tenants                                              uint32
//   per tenant, the least recently used first:
//     size of its salt, number of tokens                     uint32, uint64
//     salt, tokens (AnswerStore::Tokens)                     bytes, int32 each
//   FNV-1a of all bytes before                               uint64
#ifndef ESPALIER_DRAFTER_NGRAM_ANSWER_STORE_FILE_H_
#define ESPALIER_DRAFTER_NGRAM_ANSWER_STORE_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/speculation/types.h"

namespace espalier::drafter {

struct SavedAnswers {
  struct Tenant {
    std::string salt;
    std::vector<TokenId> tokens = {};

    friend bool operator==(const Tenant&, const Tenant&) = default;
  };
  int64_t vocab_size = 0;
  uint64_t tokenizer_fingerprint = 0;
  std::vector<Tenant> tenants = {};

  friend bool operator==(const SavedAnswers&, const SavedAnswers&) = default;
};

std::string SerializeAnswers(const SavedAnswers& saved);

// INVALID_ARGUMENT for bytes that are truncated, damaged, of another format or
// version, or that hold tokens outside of their vocabulary. Never crashes.
absl::StatusOr<SavedAnswers> ParseAnswers(absl::string_view bytes);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_NGRAM_ANSWER_STORE_FILE_H_
