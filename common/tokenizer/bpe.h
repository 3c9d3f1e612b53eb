#ifndef ESPALIER_COMMON_TOKENIZER_BPE_H_
#define ESPALIER_COMMON_TOKENIZER_BPE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/speculation/types.h"
#include "common/tokenizer/tokenizer_file.h"

namespace espalier {

// Byte-pair encoding of one word (Sennrich et al., "Neural Machine Translation
// of Rare Words with Subword Units", section 3.2). Immutable.
class Bpe {
 public:
  // Memory that one caller reuses from word to word.
  class Workspace;

  // INVALID_ARGUMENT: a merge or the unknown token is a token that the
  // vocabulary lacks.
  // UNIMPLEMENTED: some bytes have no token, and the file has an unknown token
  // for them instead of dropping them.
  static absl::StatusOr<Bpe> Create(const TokenizerFile& file);

  // Appends the ids of `word`: any bytes, or valid UTF-8 if the vocabulary is
  // of characters. O(n log n).
  void EncodeWord(std::string_view word, Workspace& workspace,
                  std::vector<TokenId>& ids) const;

 private:
  struct Merged {
    int32_t rank = 0;  // lower ranks are merged first
    TokenId id = 0;    // what the pair becomes
  };

  Bpe() = default;
  absl::Status AddBytes(const TokenizerFile& file);
  absl::Status AddCharacters(const TokenizerFile& file);
  absl::Status AddMerges(const TokenizerFile& file);

  // The symbols that merges begin with.
  void SplitBytes(std::string_view word, Workspace& workspace) const;
  void SplitCharacters(std::string_view word, Workspace& workspace) const;
  bool FallBack(std::string_view character, Workspace& workspace) const;
  void Merge(Workspace& workspace) const;

  const Merged* Find(TokenId left, TokenId right) const;
  void QueuePair(int64_t left, Workspace& workspace) const;

  Alphabet alphabet_ = Alphabet::kByteLevel;
  // kByteLevel: the tokens of bytes. kCharacters: the tokens that stand for the
  // bytes of a character without a token.
  std::array<std::optional<TokenId>, 256> byte_tokens_;
  absl::flat_hash_map<char32_t, TokenId> characters_;
  std::optional<TokenId> unknown_;
  bool fuse_unknown_ = false;
  absl::flat_hash_map<uint64_t, Merged> merges_;  // by PairKey
  Vocabulary words_;  // by their bytes, if merges are ignored for them
};

class Bpe::Workspace {
 private:
  friend class Bpe;

  void Add(TokenId id) {
    const auto position = static_cast<int64_t>(symbols_.size());
    symbols_.push_back(
        {.id = id, .previous = position - 1, .next = position + 1});
  }

  // An element of the word, a linked list in an array. The right half of a
  // merged pair is dead.
  struct Symbol {
    TokenId id = 0;
    bool dead = false;
    int64_t previous = 0;
    int64_t next = 0;
  };

  struct Candidate {
    int64_t left = 0;  // position of the pair's left half
    Merged merged;
  };

  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_BPE_H_
