#include <stop_token>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/coordinator/cli/cli_fixture.h"

namespace espalier::cli {
namespace {

using ::testing::ElementsAre;
using testing::FakeAnswer;
using ::testing::HasSubstr;

FakeAnswer Say(const std::string& text,
               v1::FinishReason reason = v1::FINISH_REASON_STOP) {
  FakeAnswer answer;
  answer.messages.resize(1);
  answer.messages[0].add_token_ids(7);
  answer.messages[0].set_text(text);
  v1::GenerateSummary& summary = *answer.messages[0].mutable_summary();
  summary.set_finish_reason(reason);
  summary.mutable_spec_stats();
  return answer;
}

std::string Said(const v1::GenerateRequest& request) {
  std::string said;
  for (const auto& message : request.chat().messages()) {
    said += message.role() + ": " + message.content() + "\n";
  }
  return said;
}

class ChatCommand : public CliFixture {};

TEST_F(ChatCommand, EachAnswerSeesWhatWasSaid) {
  server_.SetScript([](const v1::GenerateRequest& request) {
    return Say("answer " + std::to_string(request.chat().messages_size()));
  });
  const CliResult result =
      Run({"chat", "--system", "Be kind.", "--seed", "5"}, "one\n\n two \n");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "answer 2\nanswer 4\n");
  EXPECT_THAT(result.err, HasSubstr("tau "));
  ASSERT_EQ(server_.requests().size(), 2u);
  EXPECT_EQ(Said(server_.requests()[1]),
            "system: Be kind.\nuser: one\nassistant: answer 2\nuser: two\n");
  EXPECT_EQ(server_.requests()[1].seed(), 5u);
}

TEST_F(ChatCommand, APacedAnswerHasNoNumbersOfSpeculation) {
  server_.SetScript([](const v1::GenerateRequest&) {
    auto answer = Say("yes");
    answer.messages[0].mutable_summary()->clear_spec_stats();
    return answer;
  });
  const CliResult result = Run({"chat"}, "one\n");
  EXPECT_THAT(result.err, HasSubstr("1 tokens (stop) | first token after"));
  EXPECT_EQ(result.err.find("tau"), std::string::npos);
}

TEST_F(ChatCommand, NewForgetsAllButTheSystemMessage) {
  server_.SetScript([](const v1::GenerateRequest&) { return Say("yes"); });
  Run({"chat", "--system", "s"}, "one\n/new\ntwo\n");
  ASSERT_EQ(server_.requests().size(), 2u);
  EXPECT_EQ(Said(server_.requests()[1]), "system: s\nuser: two\n");
}

TEST_F(ChatCommand, SaysWhoAnswersAndKnowsItsCommands) {
  server_.SetScript([](const v1::GenerateRequest&) { return Say("yes"); });
  const CliResult result =
      Run({"chat"}, "/help\n/nwe\n/usr/bin is a path\n/exit\nnot sent\n");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("Talking with toy. /help lists"));
  EXPECT_THAT(result.err, HasSubstr("/new   start a new conversation"));
  EXPECT_THAT(result.err, HasSubstr("(no command /nwe: /help lists them)"));
  ASSERT_EQ(server_.requests().size(), 1u);
  EXPECT_EQ(Said(server_.requests()[0]), "user: /usr/bin is a path\n");
}

// The model's context has 64 tokens.
TEST_F(ChatCommand, AsksForWholeAnswers) {
  server_.SetScript([](const v1::GenerateRequest&) { return Say("yes"); });
  Run({"chat"}, "one\n");
  EXPECT_EQ(server_.requests()[0].max_tokens(), 64u);
  Run({"chat", "--max-tokens", "9"}, "one\n");
  EXPECT_EQ(server_.requests()[1].max_tokens(), 9u);
}

TEST_F(ChatCommand, AFailureIsSaidAndForgotten) {
  server_.SetScript([](const v1::GenerateRequest& request) {
    if (request.chat().messages_size() > 1) return Say("no");
    return request.chat().messages(0).content() == "bad"
               ? FakeAnswer{.status = {grpc::StatusCode::RESOURCE_EXHAUSTED,
                                       "full"}}
               : Say("fine");
  });
  const CliResult result = Run({"chat"}, "bad\ngood\n");
  EXPECT_EQ(result.code, 1);  // a script wants to know
  EXPECT_EQ(result.out, "fine\n");
  EXPECT_THAT(result.err, HasSubstr("full"));
  EXPECT_EQ(Said(server_.requests()[1]), "user: good\n");
}

TEST_F(ChatCommand, SaysThatAnAnswerWasCut) {
  server_.SetScript([](const v1::GenerateRequest&) {
    return Say("and so", v1::FINISH_REASON_LENGTH);
  });
  EXPECT_THAT(Run({"chat"}, "talk\n").err,
              HasSubstr("cut at its limit of 1 tokens"));
}

// A Ctrl-C that answers what is shown must not meet the stop of what was
// before.
TEST_F(ChatCommand, CtrlCIsArmedBeforeALineIsRead) {
  server_.SetScript([](const v1::GenerateRequest&) { return Say("here"); });
  int armed = 0;
  std::vector<int> armed_at_read;
  next_interrupt_ = [&] {
    ++armed;
    return std::stop_token();
  };
  read_line_ = [&](const std::string&, std::string& line) {
    armed_at_read.push_back(armed);
    line = "hello";
    return armed_at_read.size() < 3 ? LineEnd::kEnter : LineEnd::kEndOfInput;
  };
  Run({"chat"});
  EXPECT_THAT(armed_at_read, ElementsAre(1, 2, 3));
}

TEST_F(ChatCommand, CtrlCAfterTheLineStopsItsAnswer) {
  server_.SetScript([](const v1::GenerateRequest&) { return Say("here"); });
  std::vector<std::stop_source> armed;
  next_interrupt_ = [&] { return armed.emplace_back().get_token(); };
  read_line_ = [&](const std::string&, std::string& line) {
    line = "hello";
    if (armed.size() > 1) return LineEnd::kEndOfInput;
    armed[0].request_stop();
    return LineEnd::kEnter;
  };
  EXPECT_THAT(Run({"chat"}).err, HasSubstr("(stopped)"));
}

TEST_F(ChatCommand, CtrlCInALineDiscardsItAndSaysHowToEnd) {
  server_.SetScript([](const v1::GenerateRequest&) { return Say("here"); });
  int reads = 0;
  read_line_ = [&](const std::string& prompt, std::string& line) {
    EXPECT_EQ(prompt, "> ");
    line = "hello";
    return ++reads == 1 ? LineEnd::kInterrupt
           : reads == 2 ? LineEnd::kEnter
                        : LineEnd::kEndOfInput;
  };
  EXPECT_EQ(Run({"chat"}).out, "\n(Ctrl-D ends)\nhere\n\n");
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(ChatCommand, LocalServesItInThisProcess) {
  server_.SetScript([](const v1::GenerateRequest&) { return Say("here"); });
  EXPECT_EQ(Run({"chat", "--local"}, "hello\n").out, "here\n");
  EXPECT_EQ(local_clusters_.size(), 1u);
}

}  // namespace
}  // namespace espalier::cli
