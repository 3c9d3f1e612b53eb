#include "tests/integration/char_model.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "tests/testing/source_path.h"

namespace espalier::testing {

std::string CharModelFolder() {
  return SourcePath("deploy/models/nanogpt-char");
}

std::string CharBigramTable() { return CharModelFolder() + "/bigram.ngram"; }

std::vector<DrafterSpec> LookupAndBigram() {
  return {{.name = "lookup", .type = "prompt_lookup"},
          {.name = "bigram",
           .type = "ngram",
           .options = {{"table", CharBigramTable()}}}};
}

v1::GenerateRequest CharRequest(float temperature, uint64_t seed,
                                uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.set_prompt("First of all, what is the matter with the king?\n");
  request.set_temperature(temperature);
  request.set_seed(seed);
  request.set_max_tokens(max_tokens);
  request.set_ignore_eos(true);
  // Enough nodes that every drafter is asked in every round.
  request.mutable_speculation()->set_max_nodes(16);
  return request;
}

v1::GenerateRequest Plain(v1::GenerateRequest request) {
  static std::atomic<int> number = 0;
  request.mutable_speculation()->set_enabled(false);
  request.set_cache_salt(absl::StrCat("plain ", ++number));
  return request;
}

}  // namespace espalier::testing
