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

// Where the engine is known to differ.
enum class Difference {
  kRenders,  // Python's Jinja raises: something is undefined, or not allowed
  kPrints,   // None is printed as nothing, a list without brackets
  kEscapes,  // Python's Jinja escapes for HTML
};
const std::map<std::string, Difference> kDifferences = {
    {"CohereForAI-c4ai-command-r-plus-tool_use.jinja tools",
     Difference::kRenders},
    {"Kimi-K2-Instruct.jinja tool_calls", Difference::kRenders},
    {"Kimi-K2-Thinking.jinja tool_calls", Difference::kRenders},
    {"fireworks-ai-llama-3-firefunction-v2.jinja question",
     Difference::kRenders},
    {"fireworks-ai-llama-3-firefunction-v2.jinja system", Difference::kRenders},
    {"fireworks-ai-llama-3-firefunction-v2.jinja turns", Difference::kRenders},
    {"fireworks-ai-llama-3-firefunction-v2.jinja not_thinking",
     Difference::kRenders},
    {"fireworks-ai-llama-3-firefunction-v2.jinja thinking",
     Difference::kRenders},
    {"fireworks-ai-llama-3-firefunction-v2.jinja tools", Difference::kRenders},
    {"fireworks-ai-llama-3-firefunction-v2.jinja tool_calls",
     Difference::kRenders},
    {"llama-cpp-deepseek-r1.jinja tools", Difference::kRenders},
    {"llama-cpp-deepseek-r1.jinja tool_calls", Difference::kRenders},
    {"meetkai-functionary-medium-v3.2.jinja tool_calls", Difference::kRenders},
    {"google-gemma-4-31B-it-interleaved.jinja tool_calls", Difference::kPrints},
    {"google-gemma-4-31B-it.jinja tool_calls", Difference::kPrints},
    {"openbmb-MiniCPM5-1B.jinja tool_calls", Difference::kPrints},
    {"meetkai-functionary-medium-v3.1.jinja tools", Difference::kEscapes},
    {"meetkai-functionary-medium-v3.1.jinja tool_calls", Difference::kEscapes},
};

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

// The digest of the text, or "error"; `shown` is the text or the error.
std::string Answer(const fs::path& path, const Json& input,
                   std::string& shown) {
  const auto program = JinjaProgram::Parse(ReadAll(path));
  if (!program.ok()) {
    shown = std::string(program.status().message());
    return "error";
  }
  const absl::Time now =
      absl::FromCivil(absl::CivilHour(2024, 7, 26, 12), absl::UTCTimeZone());
  const auto pieces = (*program)->Render({{"add_generation_prompt", true},
                                          {"bos_token", "<s>"},
                                          {"eos_token", "</s>"},
                                          {"pad_token", "<pad>"},
                                          {"unk_token", "<unk>"}},
                                         input, now);
  if (!pieces.ok()) {
    shown = std::string(pieces.status().message());
    return "error";
  }
  shown.clear();
  for (const auto& piece : *pieces) shown += piece.text;
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
    const auto known = kDifferences.find(file + " " + conversation);
    if (known == kDifferences.end()) {
      EXPECT_EQ(answer, expected) << file << ", " << conversation << ":\n"
                                  << shown;
    } else {
      EXPECT_NE(answer, expected) << known->first;
      EXPECT_EQ(expected == "error", known->second == Difference::kRenders);
    }
    rendered += answer != "error" ? 1 : 0;
  }
  EXPECT_GT(rendered, 400);
}

}  // namespace
}  // namespace espalier
