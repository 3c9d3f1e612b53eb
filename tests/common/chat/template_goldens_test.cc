#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include "absl/time/civil_time.h"
#include "common/chat/jinja_program.h"
#include "tests/common/tokenizer/golden_files.h"

// Against Python's Jinja: make_template_goldens.py.

namespace espalier {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string ReadAll(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream) << path;
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::map<std::string, Json> Conversations() {
  std::map<std::string, Json> conversations;
  const Json file = Json::parse(
      ReadAll(fs::path(ESPALIER_CHAT_TESTDATA) / "conversations.json"));
  for (const Json& entry : file) conversations[entry["name"]] = entry["input"];
  return conversations;
}

// Returns the digest of the text, or "error"; `shown` is the text or the error.
std::string Answer(const fs::path& path, const Json& input,
                   std::string& shown) {
  const auto program = JinjaProgram::Parse(ReadAll(path));
  if (!program.ok()) {
    shown = std::string(program.status().message());
    return "error";
  }
  const absl::Time now =
      absl::FromCivil(absl::CivilHour(2024, 7, 26, 12), absl::UTCTimeZone());
  const auto rendered = (*program)->Render({{"add_generation_prompt", true},
                                            {"bos_token", "<s>"},
                                            {"eos_token", "</s>"},
                                            {"pad_token", "<pad>"},
                                            {"unk_token", "<unk>"}},
                                           input, now);
  if (!rendered.ok()) {
    shown = std::string(rendered.status().message());
    return "error";
  }
  shown = rendered->text;
  return DigestOf(std::string_view(shown));
}

TEST(TemplateGoldensTest, RendersPublishedTemplatesAsPythonDoes) {
  const fs::path folder = ESPALIER_TEMPLATES;
  if (!fs::exists(folder)) GTEST_SKIP() << "no templates in " << folder;
  setenv("TZ", "UTC", /*replace=*/1);
  const std::map<std::string, Json> conversations = Conversations();
  int rendered = 0;
  for (const std::string& line :
       ReadLines(fs::path(ESPALIER_CHAT_TESTDATA) / "templates.answers")) {
    std::istringstream fields(line);
    std::string file, conversation, expected, shown;
    fields >> file >> conversation >> expected;
    const std::string answer =
        Answer(folder / file, conversations.at(conversation), shown);
    EXPECT_EQ(answer, expected) << file << ", " << conversation << ":\n"
                                << shown;
    rendered += answer != "error" ? 1 : 0;
  }
  EXPECT_GT(rendered, 400);
}

}  // namespace
}  // namespace espalier
