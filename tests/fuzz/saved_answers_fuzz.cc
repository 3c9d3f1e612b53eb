#include "common/base/check.h"
#include "drafter/ngram/answer_store.h"
#include "drafter/ngram/answer_store_file.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace saved_answers_fuzz {

constexpr size_t kChecksumBytes = 8;

// FNV-1a, as in the file's header comment: without it a mutation would never
// get beyond the checksum.
std::string WithAnswersChecksum(std::string_view body) {
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
  for (const drafter::SavedAnswers& saved : std::vector<drafter::SavedAnswers>{
           {.vocab_size = 10},
           {.vocab_size = 300,
           .tokenizer_fingerprint = 5,
           .tenants = {{.salt = "", .tokens = {1, 2, 3, -1, 299, -1}},
                       {.salt = "tenant", .tokens = {7, 7, 7, 7, -1}}}}}) {
    const std::string bytes = drafter::SerializeAnswers(saved);
    seeds.push_back(bytes.substr(0, bytes.size() - kChecksumBytes));
    ESPALIER_CHECK(WithAnswersChecksum(seeds.back()) == bytes);
  }
  return seeds;
}

bool Try(std::string_view body) {
  const std::string bytes = WithAnswersChecksum(body);
  const auto saved = drafter::ParseAnswers(bytes);
  if (!saved.ok()) return false;
  ESPALIER_CHECK(drafter::SerializeAnswers(*saved) == bytes);
  for (const drafter::SavedAnswers::Tenant& tenant : saved->tenants) {
    drafter::AnswerStore store(
        {.max_tokens = 16, .max_length = 3, .max_matches = 4});
    store.AddAll(tenant.tokens);
    const std::vector<TokenId> kept = store.Tokens();
    ESPALIER_CHECK(kept.size() <= 16);
    if (!kept.empty()) (void)store.SuccessorsOf({&kept[0], 1});
  }
  return true;
}

}  // namespace saved_answers_fuzz

FuzzTarget SavedAnswersTarget() {
  return {"saved_answers", saved_answers_fuzz::Seeds, saved_answers_fuzz::Try};
}

}  // namespace espalier::testing
