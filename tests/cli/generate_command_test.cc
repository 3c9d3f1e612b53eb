#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/cli/generate_fixture.h"

namespace espalier::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;
using testing::FakeAnswer;
using testing::FakeInference;
using testing::HelloWorld;
using testing::Message;

TEST_F(GenerateCommand, StreamsTextToOutAndOneLineToErr) {
  const CliResult result = Run({"generate", "--prompt", "Say"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "Hello, world\n");
  EXPECT_EQ(result.err,
            "tau 2.50 | 100.0 tokens/s | 5 tokens in 2 verifications (stop) | "
            "accepted from lookup 100 %, bigram 33 % | "
            "lost 12 ms by speculation | first token after 20 ms, "
            "prompt 53 tokens/s\n");
}

TEST_F(GenerateCommand, SaysNothingOfDraftsWhereNothingWasDrafted) {
  server_.SetScript([](const v1::GenerateRequest&) {
    FakeAnswer answer = HelloWorld();
    v1::SpecStats& stats =
        *answer.messages[1].mutable_summary()->mutable_spec_stats();
    stats.set_num_draft_tokens(0);
    stats.set_num_accepted_draft_tokens(0);
    return answer;
  });
  const CliResult result = Run({"generate", "--prompt", "Say"});
  EXPECT_THAT(result.err, HasSubstr("| nothing drafted |"));
  EXPECT_THAT(result.err, Not(HasSubstr("no draft accepted")));
}

TEST_F(GenerateCommand, JsonHoldsEveryFieldOfTheContract) {
  const CliResult result = Run({"generate", "--prompt", "Say", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(Json::parse(result.out), Json::parse(R"({
    "index": 0,
    "token_ids": [7, 8, 9, 10, 2],
    "text": "Hello, world",
    "finish_reason": "stop",
    "usage": {"prompt_tokens": 4, "completion_tokens": 5, "total_tokens": 9,
              "cached_tokens": 3},
    "spec_stats": {
      "num_spec_steps": 2, "num_draft_tokens": 12,
      "num_accepted_draft_tokens": 3, "mean_acceptance_length": 2.5,
      "draft_acceptance_rate": 0.25, "acceptance_histogram": [0, 1, 1],
      "drafters": [
        {"name": "lookup", "proposed": 8, "accepted": 3,
         "uniquely_accepted": 2, "timeouts": 1, "errors": 0},
        {"name": "bigram", "proposed": 6, "accepted": 1,
         "uniquely_accepted": 0, "timeouts": 0, "errors": 2}],
      "strategy": "union", "rule": "walk", "degraded_steps": 1,
      "near_ties": 1, "balance_ms": -12.5, "plain_round_ms": 8.0,
      "plain_steps": 1},
    "timing": {
      "queue_ms": 1.0, "time_to_first_token_ms": 20.0, "total_ms": 50.0,
      "draft_ms": 4.0, "merge_ms": 0.5, "verify_ms": 40.0, "wire_ms": 2.0,
      "tokens_per_s": 100.0},
    "seed": 18446744073709551615,
    "request_id": "",
    "warnings": []})"));
}

TEST_F(GenerateCommand, ShowsWhatWasNotDoneAsAskedFor) {
  server_.SetScript([](const v1::GenerateRequest&) {
    FakeAnswer answer = HelloWorld();
    answer.messages[1].mutable_summary()->add_warnings("less\x1b[2J");
    return answer;
  });
  const CliResult result = Run({"generate", "--prompt", "Say"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err.rfind("warning: less\\x1b[2J\ntau 2.50", 0), 0u)
      << result.err;
  EXPECT_EQ(Json::parse(
                Run({"generate", "--prompt", "Say", "--json"}).out)["warnings"],
            Json::parse(R"(["less\\x1b[2J"])"));
}

TEST_F(GenerateCommand, PrintsEveryOutput) {
  server_.SetScript([](const v1::GenerateRequest&) {
    FakeAnswer answer;
    for (uint32_t index : {1u, 0u}) {
      for (v1::GenerateResponse& message : HelloWorld().messages) {
        message.set_index(index);
        if (index == 1 && message.has_summary()) message.set_text(" you");
        answer.messages.push_back(message);
      }
    }
    answer.messages.back().mutable_prompt()->set_text("Say: ");
    return answer;
  });
  const CliResult text = Run({"generate", "--prompt", "Say", "--n=2"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, ::testing::HasSubstr("== output 1\n"));
  EXPECT_THAT(text.out, ::testing::HasSubstr("Say: "));
  const CliResult json =
      Run({"generate", "--prompt", "Say", "--n=2", "--json"});
  std::istringstream lines(json.out);
  for (int index : {0, 1}) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(Json::parse(line)["index"], index);
  }
}

TEST_F(GenerateCommand, LogprobsArePrintedAsJson) {
  server_.SetScript([](const v1::GenerateRequest&) {
    FakeAnswer answer = HelloWorld();
    v1::PositionLogprobs& position = *answer.messages[0].add_logprobs();
    position.mutable_chosen()->set_token_id(7);
    position.mutable_chosen()->set_logprob(-0.5f);
    position.mutable_chosen()->set_token("He");
    position.add_top()->set_token_id(9);
    return answer;
  });
  const CliResult result =
      Run({"generate", "--prompt", "Say", "--logprobs=1", "--json"});
  EXPECT_EQ(Json::parse(result.out)["logprobs"], Json::parse(R"([
    {"token_id": 7, "token": "He", "logprob": -0.5,
     "top": [{"token_id": 9, "token": "", "logprob": 0.0}]}])"));
  const CliResult as_text =
      Run({"generate", "--prompt", "Say", "--logprobs=1"});
  EXPECT_EQ(as_text.code, 2);
  EXPECT_THAT(as_text.err, ::testing::HasSubstr("--json"));
}

TEST_F(GenerateCommand, SpeedOfAnAnswerInOneMessageIsNull) {
  server_.SetScript([](const v1::GenerateRequest&) {
    FakeAnswer answer = HelloWorld();
    answer.messages.erase(answer.messages.begin());
    return answer;
  });
  const CliResult result = Run({"generate", "--prompt", "Say", "--json"});
  EXPECT_TRUE(Json::parse(result.out)["timing"]["tokens_per_s"].is_null());
}

TEST_F(GenerateCommand, RefusalIsOneLineWithCodeMessageAndField) {
  server_.SetScript([](const v1::GenerateRequest&) {
    return FakeAnswer{
        .status = testing::BadRequestStatus(
            "the request is\nwrong", "max_tokens", "must be at most 64")};
  });
  const CliResult result = Run({"generate", "--prompt", "Say"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "espalier generate: INVALID_ARGUMENT: the request is wrong "
            "[max_tokens: must be at most 64]\n");
}

TEST_F(GenerateCommand, DoesNotRepeatAFieldThatTheMessageNames) {
  server_.SetScript([](const v1::GenerateRequest&) {
    return FakeAnswer{.status = testing::BadRequestStatus(
                          "max_tokens: must be at most 64", "max_tokens",
                          "must be at most 64")};
  });
  EXPECT_EQ(Run({"generate", "--prompt", "Say"}).err,
            "espalier generate: INVALID_ARGUMENT: max_tokens: must be at most "
            "64\n");
}

TEST_F(GenerateCommand, ExitCodeTellsBadInputFromTheRest) {
  const std::vector<std::pair<grpc::StatusCode, int>> cases = {
      {grpc::StatusCode::INVALID_ARGUMENT, 2},
      {grpc::StatusCode::NOT_FOUND, 2},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, 1},
      {grpc::StatusCode::UNAVAILABLE, 1},
      {grpc::StatusCode::INTERNAL, 1},
  };
  for (const auto& [code, exit_code] : cases) {
    server_.SetScript(
        [status = grpc::Status(code, "no")](const v1::GenerateRequest&) {
          return FakeAnswer{.status = status};
        });
    EXPECT_EQ(Run({"generate", "--prompt", "Say"}).code, exit_code) << code;
  }
}

TEST_F(GenerateCommand, NobodyThereNamesTheAddress) {
  const std::string address = "unix:" + (folder_ / "nobody.sock").string();
  const CliResult result =
      Run({"generate", "--prompt", "Say", "--address", address});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("UNAVAILABLE"));
  EXPECT_THAT(result.err, HasSubstr("nobody answers at " + address));
  EXPECT_THAT(result.err, HasSubstr("`espalier serve`"));
}

TEST_F(GenerateCommand, KeepsTheTextThatCameBeforeAFailure) {
  server_.SetScript([](const v1::GenerateRequest&) {
    return FakeAnswer{.messages = {Message({7}, "Hel")},
                      .status = {grpc::StatusCode::UNAVAILABLE, "gone"}};
  });
  const CliResult result = Run({"generate", "--prompt", "Say"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "Hel\n");
  EXPECT_THAT(result.err, HasSubstr("UNAVAILABLE: gone"));
}

TEST_F(GenerateCommand, AnswerWithoutASummaryIsAnError) {
  server_.SetScript([](const v1::GenerateRequest&) {
    return FakeAnswer{.messages = {Message({7}, "Hello")}};
  });
  const CliResult result = Run({"generate", "--prompt", "Say", "--json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("without a summary"));
}

TEST_F(GenerateCommand, DeadlineEndsAHangingCall) {
  server_.SetScript(
      [](const v1::GenerateRequest&) { return FakeAnswer{.hang = true}; });
  const CliResult result =
      Run({"generate", "--prompt", "Say", "--timeout", "0.05"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("DEADLINE_EXCEEDED"));
  server_.cancelled().Wait();
}

TEST_F(GenerateCommand, InterruptCancelsTheCallAtTheServer) {
  server_.SetScript([this](const v1::GenerateRequest&) {
    // Ctrl-C comes while the server works.
    interrupt_.request_stop();
    return FakeAnswer{.messages = {Message({7}, "Hel")}, .hang = true};
  });
  const CliResult result = Run({"generate", "--prompt", "Say"});
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(result.err, HasSubstr("espalier generate: interrupted\n"));
  server_.cancelled().Wait();
}

// The first message of HelloWorld, and then the connection breaks.
FakeAnswer BrokenHello() {
  FakeAnswer answer = HelloWorld();
  answer.messages.pop_back();
  answer.messages[0].set_seed(77);
  answer.messages[0].set_origin(99);
  answer.status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost");
  return answer;
}

FakeAnswer RestOfHello() {
  FakeAnswer answer = HelloWorld();
  answer.messages.erase(answer.messages.begin());
  answer.messages[0].set_seed(77);
  answer.messages[0].set_origin(99);
  return answer;
}

TEST_F(GenerateCommand, GoesOnAtTheNextServer) {
  FakeInference second((folder_ / "second.sock").string());
  server_.SetScript([](const v1::GenerateRequest&) { return BrokenHello(); });
  second.SetScript([](const v1::GenerateRequest&) { return RestOfHello(); });
  const std::string both = server_.address() + "," + second.address();
  const CliResult result =
      Run({"generate", "--prompt", "Say", "--address", both});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "Hello, world\n");
  EXPECT_THAT(result.err, HasSubstr("3 tokens in 2 verifications"));
  EXPECT_THAT(result.err, HasSubstr("resumed 1 times after 2 tokens"));
  ASSERT_EQ(second.requests().size(), 1u);
  const v1::GenerateRequest request = second.requests()[0];
  EXPECT_EQ(request.seed(), 77u);
  EXPECT_EQ(request.resumption().origin(), 99u);
  ASSERT_EQ(request.resumption().outputs_size(), 1);
  EXPECT_THAT(request.resumption().outputs(0).token_ids(), ElementsAre(7, 8));
  EXPECT_FALSE(request.resumption().outputs(0).finished());
  const CliResult json =
      Run({"generate", "--prompt", "Say", "--json", "--address", both});
  EXPECT_EQ(Json::parse(json.out)["resumptions"], 1);
}

TEST_F(GenerateCommand, AnErrorOfTheRequestIsNotTriedElsewhere) {
  FakeInference second((folder_ / "second.sock").string());
  server_.SetScript([](const v1::GenerateRequest&) {
    return FakeAnswer{
        .status = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "bad")};
  });
  const CliResult result = Run({"generate", "--prompt", "Say", "--address",
                                server_.address() + "," + second.address()});
  EXPECT_THAT(result.err, HasSubstr("INVALID_ARGUMENT: bad"));
  EXPECT_TRUE(second.requests().empty());
}

TEST_F(GenerateCommand, AServerThatDoesNotResumeIsNotRead) {
  FakeInference old((folder_ / "old.sock").string());
  int calls = 0;
  server_.SetScript([&](const v1::GenerateRequest&) {
    return calls++ == 0 ? BrokenHello() : RestOfHello();
  });
  old.SetScript([](const v1::GenerateRequest&) { return HelloWorld(); });
  const CliResult result = Run({"generate", "--prompt", "Say", "--address",
                                server_.address() + "," + old.address()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "Hello, world\n");
}

}  // namespace
}  // namespace espalier::cli
