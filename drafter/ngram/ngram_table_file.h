// The file of an NgramTable. Little endian:
//   magic "ESPNGRAM"                                        8 bytes
//   version = 1, order                                      2 x uint32
//   vocab_size, tokenizer_fingerprint                       2 x uint64
//   num_contexts, num_successors of each context length     order x 2 x uint64
//   per context length: contexts (int32 each), then totals, distinct, ends
//     (uint64 each), then successors (int32 token, uint32 count)
//   FNV-1a of all bytes before                              uint64
#ifndef ESPALIER_DRAFTER_NGRAM_NGRAM_TABLE_FILE_H_
#define ESPALIER_DRAFTER_NGRAM_NGRAM_TABLE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "drafter/ngram/ngram_table.h"

namespace espalier::drafter {

std::string SerializeNgramTable(const NgramTable& table);

// INVALID_ARGUMENT for bytes that are truncated, damaged, of another format or
// version, or that hold a table that makes no sense. Never crashes.
absl::StatusOr<NgramTable> ParseNgramTable(absl::string_view bytes);

// Writes beside `path` and renames, so that no reader sees half a file.
absl::Status WriteNgramTable(const NgramTable& table, const std::string& path);

// NOT_FOUND: cannot be opened. INVALID_ARGUMENT: as ParseNgramTable; the
// message starts with the path.
absl::StatusOr<NgramTable> ReadNgramTable(const std::string& path);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_NGRAM_NGRAM_TABLE_FILE_H_
