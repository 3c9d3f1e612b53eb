#include "common/base/check.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_file.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/testing/source_path.h"

namespace espalier::testing {
namespace tokenizer_fuzz {

std::vector<std::string> Seeds() {
  const std::string folder = "tests/common/tokenizer/testdata/";
  return {SourceFile(folder + "characters/tokenizer.json"),
          SourceFile(folder + "small/tokenizer.json"),
          SourceFile(folder + "qwen2_style/tokenizer.json"),
          SourceFile(folder + "normalized_style/tokenizer.json"),
          SourceFile(folder + "deepseek_llm_style/tokenizer.json"),
          SourceFile(folder + "llama2_style/tokenizer.json"),
          SourceFile(folder + "metaspace_style/tokenizer.json")};
}

bool Try(std::string_view bytes) {
  const auto file = ParseTokenizerFile(bytes);
  if (!file.ok()) return false;
  const auto tokenizer = Tokenizer::Create(*file, {});
  if (!tokenizer.ok()) return false;
  for (TokenId id : (*tokenizer)->Encode("It's 2 glaciers\n<|im_end|> \xc3")) {
    ESPALIER_CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
    (void)(*tokenizer)->Decode({id}, true);
  }
  return true;
}

}  // namespace tokenizer_fuzz

FuzzTarget TokenizerTarget() {
  return {"tokenizer", tokenizer_fuzz::Seeds, tokenizer_fuzz::Try};
}

}  // namespace espalier::testing
