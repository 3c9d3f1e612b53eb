#include "common/model/files/tokenizer_artifacts.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/model/files/model_identity.h"
#include "common/tokenizer/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_gguf.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::Key;

std::map<std::string, std::string> Artifacts(const std::string& path) {
  std::map<std::string, std::string> files;
  auto artifacts = TokenizerArtifacts(path);
  EXPECT_TRUE(artifacts.ok()) << artifacts.status();
  for (TextFile& file : *artifacts) files[file.name] = std::move(file.content);
  return files;
}

// Returns the tokenizer that others make of the files.
std::unique_ptr<Tokenizer> Load(const std::string& path) {
  const fs::path folder = fs::path(::testing::TempDir()) / "artifacts";
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& [name, content] : Artifacts(path)) {
    std::ofstream(folder / name, std::ios::binary) << content;
  }
  auto tokenizer = Tokenizer::Load(folder);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::string SomeText(std::mt19937& random) {
  static const std::vector<std::string> kParts = {
      "a",       "B",   " the",       "  ",          "\n\n", "12345",
      "'LL",     "'ve", "é",          "!?",          "\t",   "日本",
      "e\u0301", "_x",  "<|im_end|>", "<|im_start|>"};
  std::string text;
  for (size_t i = random() % 20; i > 0; --i) {
    text += kParts[random() % kParts.size()];
  }
  return text;
}

// Every family that GGUF files name: another program that reads the files gets
// the ids that this one gives.
TEST(TokenizerArtifactsTest, OfAGgufFileMakeTheSameTokenizer) {
  std::mt19937 random(1);
  const auto tensors = testing::WriteTinyLlama(::testing::TempDir());
  for (const char* family : {"gpt-2", "llama-bpe", "qwen2", "smollm"}) {
    testing::GgufBytes file = testing::TinyGguf("llama", tensors);
    std::erase_if(file.pairs, [](const std::string& pair) {
      return pair.find("tokenizer.ggml.") != std::string::npos;
    });
    for (const std::string& pair : testing::TinyTokenizerPairs(family)) {
      file.pairs.push_back(pair);
    }
    const std::string path = ::testing::TempDir() + "/artifacts.gguf";
    testing::WriteBytes(path, file.Bytes());
    auto own = LoadTokenizer(path);
    ASSERT_TRUE(own.ok()) << own.status();
    const auto other = Load(path);
    EXPECT_EQ(other->fingerprint(), (*own)->fingerprint());
    EXPECT_EQ(other->chat_template(), (*own)->chat_template());
    for (int i = 0; i < 200; ++i) {
      const std::string text = SomeText(random);
      EXPECT_EQ(other->Encode(text), (*own)->Encode(text)) << text;
    }
  }
}

TEST(TokenizerArtifactsTest, OfAFolderAreItsOwnFiles) {
  const auto files =
      Artifacts(ESPALIER_SOURCE_DIR "/deploy/models/nanogpt-char");
  EXPECT_THAT(files, Contains(Key("tokenizer.json")));
  EXPECT_THAT(files, Contains(Key("config.json")));
  EXPECT_THAT(files, ::testing::Not(Contains(Key("model.safetensors"))));
}

TEST(TokenizerArtifactsTest, AFolderWithoutATokenizerIsAnError) {
  const fs::path folder = fs::path(::testing::TempDir()) / "no_tokenizer";
  fs::create_directories(folder);
  EXPECT_TRUE(absl::IsNotFound(TokenizerArtifacts(folder).status()));
}

}  // namespace
}  // namespace espalier
