#include "coordinator/cli/app.h"

#include <map>
#include <sstream>

#include "gmock/gmock.h"

namespace espalier::cli {
namespace {

using ::testing::HasSubstr;

class AppTest : public ::testing::Test {
 protected:
  AppTest() {
    Add("bench", absl::OkStatus());
    Add("bench forward", absl::OkStatus());
    Add("input", absl::InvalidArgumentError("two\nlines"));
    Add("broken", absl::InternalError("broken"));
  }

  void Add(const std::string& name, absl::Status status) {
    commands_.push_back({.name = name,
                         .summary = "about " + name,
                         .run = [this, name, status](Context&, Args args) {
                           ran_ =
                               name + "(" + std::to_string(args.size()) + ")";
                           return status;
                         }});
  }
  int Run(const std::vector<std::string>& args) {
    Context context{.in = in_,
                    .out = out_,
                    .err = err_,
                    .interrupt = interrupt_.get_token()};
    return RunApp(commands_, context, args);
  }

  std::vector<Command> commands_;
  std::string ran_;
  std::istringstream in_;
  std::ostringstream out_;
  std::ostringstream err_;
  std::stop_source interrupt_;
};

TEST_F(AppTest, LongestNameWins) {
  EXPECT_EQ(Run({"bench", "forward", "--rows", "1"}), 0);
  EXPECT_EQ(ran_, "bench forward(2)");
  EXPECT_EQ(Run({"bench", "--suite", "forward"}), 0);
  EXPECT_EQ(ran_, "bench(2)");
}

TEST_F(AppTest, UnknownCommandIsExit2AndListsTheKnown) {
  EXPECT_EQ(Run({"bnech"}), 2);
  EXPECT_EQ(err_.str(),
            "espalier: unknown command \"bnech\"; did you mean bench? "
            "Known: bench, bench forward, input, broken, help, version\n");
  err_.str("");
  EXPECT_EQ(Run({"wat"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("unknown command \"wat\"; known: bench"));
}

TEST_F(AppTest, NoCommandIsExit2AndExplains) {
  EXPECT_EQ(Run({}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("Usage: espalier COMMAND"));
}

TEST_F(AppTest, FailureIsOneLine) {
  EXPECT_EQ(Run({"input"}), 2);
  EXPECT_EQ(err_.str(), "espalier input: two lines\n");
}

TEST_F(AppTest, FailureThatIsNotTheUsersIsExit1) {
  EXPECT_EQ(Run({"broken"}), 1);
}

TEST_F(AppTest, FailureAfterAnInterruptIsExit130) {
  interrupt_.request_stop();
  EXPECT_EQ(Run({"broken"}), 130);
  EXPECT_EQ(Run({"bench"}), 0);  // it was done before the interrupt came
}

TEST_F(AppTest, HelpListsCommandsAndExplainsOne) {
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("  bench forward   about bench forward\n"));
  EXPECT_EQ(Run({"help", "bench", "forward"}), 0);
  EXPECT_EQ(ran_, "bench forward(1)");  // with --help
  EXPECT_EQ(Run({"help", "nothing"}), 2);
}

TEST_F(AppTest, VersionIsPrinted) {
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_THAT(out_.str(), ::testing::MatchesRegex("espalier [0-9.]+\n"));
  out_.str("");
  EXPECT_EQ(Run({"version"}), 0);
  EXPECT_THAT(out_.str(), ::testing::MatchesRegex("espalier [0-9.]+\n"));
}

Places PlacesOf(std::map<std::string, std::string> environment) {
  return Places::From(
      [environment](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? "" : found->second;
      },
      /*user_id=*/7, "/bin");
}

TEST(Places, FollowTheEnvironment) {
  const Places plain = PlacesOf({{"HOME", "/home/me"}});
  EXPECT_EQ(plain.address, "unix:/tmp/espalier-7/coordinator.sock");
  EXPECT_EQ(plain.model,
            "/home/me/.cache/espalier/models/smollm2-135m-instruct");
  EXPECT_EQ(PlacesOf({{"XDG_RUNTIME_DIR", "/run/user/7"}}).address,
            "unix:/run/user/7/espalier-7/coordinator.sock");
  EXPECT_EQ(PlacesOf({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}).model,
            "/x/espalier/models/smollm2-135m-instruct");
  EXPECT_EQ(
      PlacesOf({{"XDG_CACHE_HOME", "/x"}, {"ESPALIER_CACHE", "/e"}}).model,
      "/e/models/smollm2-135m-instruct");
}

}  // namespace
}  // namespace espalier::cli
