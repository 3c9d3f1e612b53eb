// The quick start's model, where set-up has put it: real weights, whose logits
// have near-ties that the character model lacks.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"

namespace espalier::testing {
namespace {

std::string DefaultModelFolder() {
  const auto environment = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  std::string cache = environment("ESPALIER_CACHE");
  if (cache.empty()) {
    cache = environment("XDG_CACHE_HOME");
    cache = absl::StrCat(
        cache.empty() ? environment("HOME") + "/.cache" : cache, "/espalier");
  }
  return cache + "/models/smollm2-135m-instruct";
}

TEST(DefaultModelTest, SpeculationDoesNotChangeAChatAnswer) {
  if (!std::filesystem::exists(DefaultModelFolder() + "/model.safetensors")) {
    GTEST_SKIP() << "no default model: run deploy/setup.sh";
  }
  Cluster cluster({.model = DefaultModelFolder(),
                   .drafters = {{.name = "lookup", .type = "prompt_lookup"}}});
  cluster.AwaitReady();
  for (const char* question :
       {"Repeat after me: one two three four, one two three four.",
        "Name three rivers of Europe."}) {
    for (float temperature : {0.0f, 1.0f}) {
      v1::GenerateRequest request;
      v1::ChatMessage& message = *request.mutable_chat()->add_messages();
      message.set_role("user");
      message.set_content(question);
      request.set_temperature(temperature);
      request.set_seed(4);
      request.set_max_tokens(32);
      const Generated drafted = Generate(cluster.stub(), request);
      request.mutable_speculation()->set_enabled(false);
      const Generated plain = Generate(cluster.stub(), request);
      ASSERT_TRUE(plain.status.ok()) << plain.status.error_message();
      EXPECT_EQ(drafted.token_ids, plain.token_ids)
          << question << " at temperature " << temperature;
      EXPECT_FALSE(plain.text.empty());
    }
  }
}

}  // namespace
}  // namespace espalier::testing
