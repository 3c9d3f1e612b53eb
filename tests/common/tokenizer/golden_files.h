#ifndef ESPALIER_TESTS_COMMON_TOKENIZER_GOLDEN_FILES_H_
#define ESPALIER_TESTS_COMMON_TOKENIZER_GOLDEN_FILES_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/tokenizer/tokenizer.h"

namespace espalier {

// Readers of the files of make_goldens.py. A missing or empty file fails the
// test.

std::filesystem::path Testdata(std::string_view name);

std::vector<std::string> ReadLines(const std::filesystem::path& path);

// Returns the texts of texts.txt: any bytes, in order.
std::vector<std::string> GoldenTexts();

// FNV-1a over a sequence of numbers.
class Digest {
 public:
  void Add(uint32_t number) { value_ = (value_ ^ number) * 0x01000193; }
  std::string Hex() const;

 private:
  uint32_t value_ = 0x811C9DC5;
};

std::string DigestOf(absl::Span<const TokenId> ids);
std::string DigestOf(std::string_view bytes);

// Returns the folder of the default model in bfloat16, with tokenizer.json:
// $ESPALIER_MODEL_DIR, or where `deploy/setup.sh --tests` puts it. Empty if it
// is not there; it is too large for the repository.
std::filesystem::path DefaultModelFolder();

std::unique_ptr<Tokenizer> LoadOrDie(const std::filesystem::path& path);

}  // namespace espalier

#endif  // ESPALIER_TESTS_COMMON_TOKENIZER_GOLDEN_FILES_H_
