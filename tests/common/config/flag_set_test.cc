#include "common/config/flag_set.h"

#include <sstream>

#include "gmock/gmock.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FlagSetTest : public ::testing::Test {
 protected:
  FlagSetTest() {
    flags_.Add({"--count", "N", "how many"}, &count_);
    flags_.Add({"--names", "A,B", "who"}, &names_);
    flags_.Add({"--set", "X", "repeatable"}, &set_);
    flags_.Add({"--a-very-long-flag-name", "LONG", "line one\nline two"},
               &text_);
    flags_.AddSwitch({"--on", "", "a switch"}, &on_);
    flags_.AddPositional(&positional_, /*limit=*/1);
  }

  absl::StatusOr<bool> Parse(const std::vector<std::string>& args) {
    return flags_.Parse(args, help_);
  }
  std::string Error(const std::vector<std::string>& args) {
    return std::string(Parse(args).status().message());
  }

  FlagSet flags_{"Usage: test"};
  std::optional<uint32_t> count_;
  std::vector<std::string> names_;
  Repeated set_;
  std::string text_;
  bool on_ = false;
  std::vector<std::string> positional_;
  std::ostringstream help_;
};

TEST_F(FlagSetTest, TakesValuesBesideAndBehindAnEqualsSign) {
  ASSERT_TRUE(Parse({"--count", "3", "--names=a,b", "--on", "--set", "x=1",
                     "--set=y=2", "rest"})
                  .value());
  EXPECT_EQ(count_, 3u);
  EXPECT_THAT(names_, ElementsAre("a", "b"));
  EXPECT_THAT(set_.values, ElementsAre("x=1", "y=2"));
  EXPECT_TRUE(on_);
  EXPECT_THAT(positional_, ElementsAre("rest"));
}

TEST_F(FlagSetTest, ValueMayLookLikeAFlag) {
  ASSERT_TRUE(Parse({"--a-very-long-flag-name", "--on"}).value());
  EXPECT_EQ(text_, "--on");
  EXPECT_FALSE(on_);
}

TEST_F(FlagSetTest, SettersGetEachValueThatIsValid) {
  std::vector<uint32_t> seen;
  bool is_set = false;
  FlagSet flags("Usage: test");
  flags.AddSetter<uint32_t>({"--count", "N", "how many"},
                            [&](uint32_t count) { seen.push_back(count); });
  flags.AddSwitch({"--on", "", "a switch"}, [&] { is_set = true; });
  ASSERT_TRUE(
      flags.Parse({"--count", "3", "--on", "--count=4"}, help_).value());
  EXPECT_THAT(seen, ElementsAre(3, 4));
  EXPECT_TRUE(is_set);
  EXPECT_EQ(flags.Parse({"--count", "x"}, help_).status().message(),
            "--count: \"x\" is not a whole number of 0 .. 4294967295");
  EXPECT_THAT(seen, ElementsAre(3, 4));
}

TEST_F(FlagSetTest, TwoDashesEndTheFlags) {
  ASSERT_TRUE(Parse({"--", "--on"}).value());
  EXPECT_FALSE(on_);
  EXPECT_THAT(positional_, ElementsAre("--on"));
}

TEST_F(FlagSetTest, ErrorsNameTheFlag) {
  EXPECT_EQ(Error({"--wat"}),
            "unknown flag --wat; known: --count, --names, --set, "
            "--a-very-long-flag-name, --on, --help");
  EXPECT_EQ(Error({"--count"}), "--count needs a value: N");
  EXPECT_EQ(Error({"--count="}),
            "--count: \"\" is not a whole number of 0 .. 4294967295");
  EXPECT_EQ(Error({"--count", "4294967296"}),
            "--count: \"4294967296\" is not a whole number of 0 .. "
            "4294967295");
  EXPECT_EQ(Error({"--on=yes"}), "--on takes no value");
  EXPECT_EQ(Error({"one", "two"}), "unexpected argument \"two\"");
}

TEST_F(FlagSetTest, HelpListsEveryFlagAndStops) {
  EXPECT_FALSE(Parse({"--help", "--count", "oops"}).value());
  EXPECT_THAT(help_.str(), HasSubstr("Usage: test\n\nFlags:\n"));
  EXPECT_THAT(help_.str(), HasSubstr("  --count N               how many\n"));
  EXPECT_THAT(help_.str(), HasSubstr("  --a-very-long-flag-name LONG\n"
                                     "                          line one\n"
                                     "                          line two\n"));
}

}  // namespace
}  // namespace espalier
