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

// Readers of what make_goldens.py writes. All fail the test loudly rather
// than return nothing.

std::filesystem::path Testdata(std::string_view name);

std::vector<std::string> ReadLines(const std::filesystem::path& path);

// The texts of texts.txt: any bytes, in order.
std::vector<std::string> GoldenTexts();

// FNV-1a over numbers, one at a time.
class Digest {
 public:
  void Add(uint32_t number) { value_ = (value_ ^ number) * 0x01000193; }
  std::string Hex() const;

 private:
  uint32_t value_ = 0x811C9DC5;
};

std::string DigestOf(absl::Span<const TokenId> ids);
std::string DigestOf(std::string_view bytes);

// The folder of the default model ($ESPALIER_MODEL_DIR, else where set-up
// puts it), or an empty path: it is too large to be in the repository.
std::filesystem::path DefaultModelFolder();

std::unique_ptr<Tokenizer> LoadOrDie(const std::filesystem::path& path);

}  // namespace espalier

#endif  // ESPALIER_TESTS_COMMON_TOKENIZER_GOLDEN_FILES_H_
