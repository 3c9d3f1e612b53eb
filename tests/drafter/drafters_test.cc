#include "drafter/drafters.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::drafter {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

// Returns the message of making a prompt_lookup drafter; empty if it was made.
std::string Create(const std::map<std::string, std::string>& options) {
  const absl::Status status =
      NewPromptLookupDrafter({.options = options, .vocab_size = 10}).status();
  if (!status.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  }
  return std::string(status.message());
}

TEST(DraftersTest, TheListHasTheTypesOfTheReadme) {
  DrafterRegistry registry("drafter");
  RegisterDrafters(registry);
  EXPECT_THAT(registry.Names(),
              IsSupersetOf({"dflash", "eagle", "grammar", "lm", "ngram",
                            "prompt_lookup", "recycle", "replay", "suffix"}));
}

TEST(DraftersTest, GoodOptionsAreTaken) {
  EXPECT_EQ(Create({}), "");
  EXPECT_EQ(Create({{"min_match", "2"},
                    {"max_match", "16"},
                    {"max_matches", "1"},
                    {"window", "1000"},
                    {"width", "0"},
                    {"noise_scale", "0.5"}}),
            "");
}

TEST(DraftersTest, UnknownOptionsAreNamedWithTheKnownOnes) {
  const std::string message = Create({{"max_mach", "4"}});
  EXPECT_THAT(message, HasSubstr("drafter prompt_lookup: unknown option "
                                 "\"max_mach\"; known: max_match, min_match"));
}

TEST(DraftersTest, ValuesOutOfRangeAreNamedWithTheLimit) {
  EXPECT_THAT(Create({{"max_match", "17"}}),
              HasSubstr("option max_match: \"17\" is not a whole number from 1 "
                        "to 16"));
  EXPECT_THAT(Create({{"max_match", "3"}, {"min_match", "4"}}),
              HasSubstr("option min_match: \"4\" is not a whole number from 1 "
                        "to 3"));
  EXPECT_THAT(Create({{"window", ""}}), HasSubstr("option window"));
  EXPECT_THAT(Create({{"width", "2.5"}}), HasSubstr("option width"));
  EXPECT_THAT(Create({{"width", "99999999999999999999"}}),
              HasSubstr("option width"));
  for (const char* bad : {"nan", "inf", "0", "-1", "x", "1e9"}) {
    EXPECT_THAT(Create({{"noise_scale", bad}}),
                HasSubstr("option noise_scale"));
  }
}

}  // namespace
}  // namespace espalier::drafter
