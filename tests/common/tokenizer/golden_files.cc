#include "tests/common/tokenizer/golden_files.h"

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace espalier {
namespace fs = std::filesystem;

namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

fs::path Testdata(std::string_view name) {
  return fs::path(ESPALIER_TOKENIZER_TESTDATA) / name;
}

std::vector<std::string> ReadLines(const fs::path& path) {
  std::ifstream stream(path);
  ESPALIER_CHECK(stream.is_open());
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  ESPALIER_CHECK(!lines.empty());
  return lines;
}

std::vector<std::string> GoldenTexts() {
  std::vector<std::string> texts = ReadLines(Testdata("texts.txt"));
  for (std::string& text : texts) {
    std::string bytes;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\') {
        bytes += absl::HexStringToBytes(text.substr(i + 2, 2));
        i += 3;
      } else {
        bytes += text[i];
      }
    }
    text = bytes;
  }
  return texts;
}

std::string Digest::Hex() const { return absl::StrFormat("%08x", value_); }

std::string DigestOf(absl::Span<const TokenId> ids) {
  Digest digest;
  for (TokenId id : ids) digest.Add(static_cast<uint32_t>(id));
  return digest.Hex();
}

std::string DigestOf(std::string_view bytes) {
  Digest digest;
  for (char c : bytes) digest.Add(static_cast<uint8_t>(c));
  return digest.Hex();
}

fs::path DefaultModelFolder() {
  fs::path folder = Environment("ESPALIER_MODEL_DIR");
  if (folder.empty()) {
    fs::path cache = Environment("ESPALIER_CACHE");
    if (cache.empty()) {
      cache = Environment("XDG_CACHE_HOME");
      if (cache.empty()) cache = fs::path(Environment("HOME")) / ".cache";
      cache /= "espalier";
    }
    folder = cache / "models" / "smollm2-135m-instruct-bf16";
  }
  return fs::exists(folder / "tokenizer.json") ? folder : fs::path();
}

std::unique_ptr<Tokenizer> LoadOrDie(const fs::path& path) {
  auto tokenizer = Tokenizer::Load(path);
  if (!tokenizer.ok()) std::cerr << tokenizer.status() << "\n";
  ESPALIER_CHECK(tokenizer.ok());
  return *std::move(tokenizer);
}

}  // namespace espalier
