#ifndef ESPALIER_COMMON_TOKENIZER_ADDED_TOKEN_MATCHER_H_
#define ESPALIER_COMMON_TOKENIZER_ADDED_TOKEN_MATCHER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "common/tokenizer/added_token.h"

namespace espalier {

// Finds added tokens in text: a trie of their bytes. Immutable.
class AddedTokenMatcher {
 public:
  struct Match {
    const AddedToken* token = nullptr;  // of the matcher
    size_t begin = 0;                   // bytes
    size_t end = 0;
  };

  void Add(const AddedToken& token);

  using Accept = absl::FunctionRef<bool(const Match&)>;

  // Returns the leftmost match at or after byte `from` that `accept` takes; if
  // several begin there, the longest.
  std::optional<Match> Find(std::string_view text, size_t from,
                            Accept accept) const;

 private:
  static constexpr int32_t kNoToken = -1;

  std::optional<Match> MatchAt(std::string_view text, size_t begin,
                               Accept accept) const;

  // Node 0 is the root. children_ maps (node << 8 | byte) to a node.
  absl::flat_hash_map<uint64_t, uint64_t> children_;
  std::vector<int32_t> ends_{kNoToken};  // by node: which token ends there
  std::vector<AddedToken> tokens_;
  std::array<bool, 256> begins_{};  // some token begins with this byte
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_ADDED_TOKEN_MATCHER_H_
