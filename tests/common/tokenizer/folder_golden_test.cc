// Folders whose files contradict each other, as AutoTokenizer reads them
// (make_folder_goldens.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/common/tokenizer/golden_files.h"

namespace espalier {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

json ReadJson(const char* name) {
  return json::parse(absl::StrJoin(ReadLines(Testdata(name)), "\n"));
}

class FolderGoldenTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  // The folder of one entry of folders.json.
  void Write(const json& entry) {
    for (const auto& file : fs::directory_iterator(folder_)) fs::remove(file);
    json tokenizer = ReadJson("small/tokenizer.json");
    tokenizer["added_tokens"] = entry["added_tokens"];
    std::ofstream(folder_ / "tokenizer.json") << tokenizer;
    for (const auto& [name, content] : entry["files"].items()) {
      std::ofstream(folder_ / name) << content;
    }
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "folder_goldens";
};

TEST_F(FolderGoldenTest, ReadsEveryFolderAsAutoTokenizerDoes) {
  const json goldens = ReadJson("folders.json");
  const auto texts = goldens["texts"].get<std::vector<std::string>>();
  for (const json& entry : goldens["folders"]) {
    Write(entry);
    SCOPED_TRACE(entry["files"].dump() + entry["added_tokens"].dump());
    const auto tokenizer = Tokenizer::Load(folder_);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ(json((*tokenizer)->named_tokens()), entry["named"]);
    EXPECT_EQ((*tokenizer)->vocab_size(), entry["size"].get<int64_t>());
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto ids = entry["ids"][i].get<std::vector<TokenId>>();
      EXPECT_EQ((*tokenizer)->Encode(texts[i]), ids) << texts[i];
      EXPECT_EQ((*tokenizer)->Decode(ids, /*skip_special=*/true),
                entry["decoded"][i].get<std::string>());
    }
  }
}

TEST_F(FolderGoldenTest, NamesTheFileAndTheFieldThatIsWrong) {
  const std::vector<std::vector<const char*>> cases = {
      {"tokenizer_config.json", R"({"added_tokens_decoder": {"x": {}}})",
       "added_tokens_decoder.x"},
      {"tokenizer_config.json", R"({"added_tokens_decoder": {"3": "<a>"}})",
       "added_tokens_decoder.3"},
      {"tokenizer_config.json", R"({"added_tokens_decoder": {"-1": {}}})",
       "added_tokens_decoder.-1"},
      {"tokenizer_config.json", R"({"additional_special_tokens": 3})",
       "additional_special_tokens"},
      {"special_tokens_map.json", R"({"bos_token": ["<s>"]})", "bos_token"},
      {"special_tokens_map.json", R"({"eos_token": {"lstrip": true}})",
       "eos_token.content"},
      {"added_tokens.json", R"({"<a>": "420"})", "<a>"},
      {"added_tokens.json", R"({"<a>": 99999999})", "<a>"},
  };
  for (const auto& bad : cases) {
    Write({{"added_tokens", json::array()}, {"files", json::object()}});
    std::ofstream(folder_ / bad[0]) << bad[1];
    const absl::Status status = Tokenizer::Load(folder_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad[1];
    EXPECT_THAT(
        std::string(status.message()),
        testing::AllOf(testing::HasSubstr(bad[0]), testing::HasSubstr(bad[2])));
  }
}

}  // namespace
}  // namespace espalier
