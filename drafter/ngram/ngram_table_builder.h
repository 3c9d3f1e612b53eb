#ifndef ESPALIER_DRAFTER_NGRAM_NGRAM_TABLE_BUILDER_H_
#define ESPALIER_DRAFTER_NGRAM_NGRAM_TABLE_BUILDER_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "drafter/ngram/ngram_table.h"

namespace espalier::drafter {

struct NgramTableOptions {
  int64_t order = 2;  // 1 .. NgramTable::kMaxOrder
  int64_t vocab_size = 0;
  uint64_t tokenizer_fingerprint = 0;
  int64_t max_successors = 16;  // kept of a context, >= 1
  int64_t min_count = 1;        // of a successor that is kept, >= 1
};

// Counts n-grams of documents. Memory grows with the distinct n-grams.
class NgramTableBuilder {
 public:
  // INVALID_ARGUMENT names the option that is out of range.
  static absl::StatusOr<NgramTableBuilder> Create(
      const NgramTableOptions& options);

  // Contexts do not reach over the ends of a document. INVALID_ARGUMENT: a
  // token outside the vocabulary; nothing is counted then.
  absl::Status Add(absl::Span<const TokenId> document);

  // Contexts that lose all their successors to min_count are left out.
  NgramTable Build() const;

 private:
  using Context = std::array<TokenId, NgramTable::kMaxOrder - 1>;  // 0-padded
  using Counts = absl::flat_hash_map<TokenId, uint32_t>;
  using Level = absl::flat_hash_map<Context, Counts>;

  explicit NgramTableBuilder(const NgramTableOptions& options);
  NgramTable::Level BuildLevel(int64_t length) const;

  NgramTableOptions options_;
  std::vector<Level> levels_;  // [order], by context length
};

// Puts the next document into its argument; false when there is none.
using NextDocument =
    absl::FunctionRef<absl::StatusOr<bool>(std::vector<TokenId>&)>;

// Counts all documents and writes the table to `path`.
absl::Status BuildNgramTable(const NgramTableOptions& options,
                             NextDocument next_document,
                             const std::string& path);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_NGRAM_NGRAM_TABLE_BUILDER_H_
