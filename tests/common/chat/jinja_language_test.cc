#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "common/chat/jinja_program.h"

// Small templates by feature, with what Jinja2 makes of them:
// make_language_goldens.py.

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

class JinjaLanguageTest : public testing::TestWithParam<const char*> {};

TEST_P(JinjaLanguageTest, RendersAsJinja2Does) {
  std::ifstream stream(std::string(ESPALIER_CHAT_TESTDATA) + "/language.json");
  const Json file = Json::parse(stream);
  int cases = 0;
  for (const Json& entry : file["cases"]) {
    if (entry["feature"] != GetParam()) continue;
    ++cases;
    const std::string source = entry["source"];
    const auto program = JinjaProgram::Parse(source);
    absl::StatusOr<JinjaProgram::Rendered> rendered = program.status();
    if (program.ok()) {
      rendered =
          (*program)->Render(Json::object(), file["given"], absl::UnixEpoch());
    }
    if (entry.contains("raises")) {
      EXPECT_EQ(rendered.status().code(), absl::StatusCode::kInvalidArgument)
          << source << " gives " << rendered->text << ", Jinja2 raises "
          << entry["raises"];
    } else {
      ASSERT_TRUE(rendered.ok()) << source << ": " << rendered.status();
      EXPECT_EQ(rendered->text, entry["text"].get<std::string>()) << source;
    }
  }
  EXPECT_GT(cases, 3);
}

INSTANTIATE_TEST_SUITE_P(
    Features, JinjaLanguageTest,
    testing::Values("numbers", "printing", "texts", "scope", "loops", "macros",
                    "filters", "tests", "members", "white_space", "errors"),
    [](const auto& feature) { return std::string(feature.param); });

}  // namespace
}  // namespace espalier
