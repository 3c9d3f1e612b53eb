#include "common/base/check.h"
#include "drafter/ngram/ngram_table_builder.h"
#include "drafter/ngram/ngram_table_file.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace ngram_table_fuzz {

constexpr size_t kChecksumBytes = 8;

// FNV-1a, as in the file's header comment: without it a mutation would never
// get beyond the checksum.
std::string WithChecksum(std::string_view body) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char byte : body) {
    hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  }
  std::string bytes(body);
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    bytes.push_back(static_cast<char>(hash >> (8 * i)));
  }
  return bytes;
}

// Without the checksum.
std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (int64_t order : {1, 3}) {
    auto builder = drafter::NgramTableBuilder::Create(
        {.order = order, .vocab_size = 6, .max_successors = 4});
    ESPALIER_CHECK(builder.ok());
    ESPALIER_CHECK(builder->Add({0, 1, 2, 0, 1, 3, 5, 0, 1}).ok());
    const std::string bytes = drafter::SerializeNgramTable(builder->Build());
    seeds.push_back(bytes.substr(0, bytes.size() - kChecksumBytes));
    ESPALIER_CHECK(WithChecksum(seeds.back()) == bytes);
  }
  return seeds;
}

bool Try(std::string_view body) {
  const std::string bytes = WithChecksum(body);
  const auto table = drafter::ParseNgramTable(bytes);
  if (!table.ok()) return false;
  ESPALIER_CHECK(drafter::SerializeNgramTable(*table) == bytes);
  for (const std::vector<TokenId>& context :
       {std::vector<TokenId>{}, {1}, {0, 1}}) {
    if (std::ssize(context) < table->order()) (void)table->Find(context);
  }
  return true;
}

}  // namespace ngram_table_fuzz

FuzzTarget NgramTableTarget() {
  return {"ngram_table", ngram_table_fuzz::Seeds, ngram_table_fuzz::Try};
}

}  // namespace espalier::testing
