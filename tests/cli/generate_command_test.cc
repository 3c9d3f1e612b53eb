#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/cli/cli_fixture.h"

namespace espalier::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;
using testing::FakeAnswer;
using testing::FakeInference;

v1::GenerateResponse Message(std::initializer_list<uint32_t> ids,
                             const std::string& text) {
  v1::GenerateResponse message;
  message.mutable_token_ids()->Assign(ids.begin(), ids.end());
  message.set_text(text);
  return message;
}

// "Hello, world" in 5 tokens: 2 in the first message, 3 in the 30 ms after it.
FakeAnswer HelloWorld() {
  FakeAnswer answer;
  answer.messages = {Message({7, 8}, "Hello,"), Message({9, 10, 2}, " world")};
  v1::GenerateSummary& summary = *answer.messages[1].mutable_summary();
  summary.set_finish_reason(v1::FINISH_REASON_STOP);
  summary.set_seed(18446744073709551615u);
  summary.mutable_usage()->set_prompt_tokens(4);
  summary.mutable_usage()->set_cached_tokens(3);
  summary.mutable_usage()->set_completion_tokens(5);
  summary.mutable_usage()->set_total_tokens(9);
  v1::SpecStats& stats = *summary.mutable_spec_stats();
  stats.set_num_spec_steps(2);
  stats.set_num_draft_tokens(12);
  stats.set_num_accepted_draft_tokens(3);
  stats.set_mean_acceptance_length(2.5);
  stats.set_draft_acceptance_rate(0.25);
  for (uint32_t count : {0, 1, 1}) stats.add_acceptance_histogram(count);
  v1::DrafterStats& lookup = *stats.add_drafters();
  lookup.set_name("lookup");
  lookup.set_proposed(8);
  lookup.set_accepted(3);
  lookup.set_uniquely_accepted(2);
  lookup.set_timeouts(1);
  v1::DrafterStats& bigram = *stats.add_drafters();
  bigram.set_name("bigram");
  bigram.set_proposed(6);
  bigram.set_accepted(1);
  bigram.set_errors(2);
  stats.set_strategy("union");
  stats.set_rule("walk");
  stats.set_degraded_steps(1);
  stats.set_near_ties(1);
  stats.set_balance_ms(-12.5);
  stats.set_plain_round_ms(8);
  stats.set_plain_steps(1);
  v1::Timing& timing = *summary.mutable_timing();
  timing.set_queue_ms(1);
  timing.set_time_to_first_token_ms(20);
  timing.set_total_ms(50);
  timing.set_draft_ms(4);
  timing.set_merge_ms(0.5);
  timing.set_verify_ms(40);
  timing.set_wire_ms(2);
  return answer;
}

class GenerateCommand : public CliFixture {
 protected:
  GenerateCommand() {
    server_.SetScript([](const v1::GenerateRequest&) { return HelloWorld(); });
  }
};

TEST_F(GenerateCommand, PassesToolsAndArgumentsToTheChatTemplate) {
  Run({"generate", "--chat", "Hi", "--tools", "[{}]", "--template-args",
       R"({"enable_thinking": false})"});
  const v1::Chat chat = server_.requests().back().chat();
  EXPECT_EQ(chat.tools(), "[{}]");
  EXPECT_EQ(chat.template_args(), R"({"enable_thinking": false})");
  EXPECT_EQ(chat.messages(0).content(), "Hi");
  const CliResult without =
      Run({"generate", "--prompt", "Hi", "--tools", "[]"});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("--tools are for --chat"));
  EXPECT_THAT(Run({"generate", "--chat", "Hi", "--tools", "\xff"}).err,
              HasSubstr("--tools: the text is not valid UTF-8"));
}

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

TEST_F(GenerateCommand, LocalTakesTheModelAndTheDevice) {
  EXPECT_EQ(Run({"generate", "--local", "--model", "m.gguf", "--device", "cuda",
                 "--prompt", "Say"})
                .code,
            0);
  ASSERT_EQ(local_clusters_.size(), 1u);
  EXPECT_THAT(local_clusters_[0].overrides,
              ElementsAre("verifier.model=m.gguf", "verifier.device=cuda"));
  const CliResult remote = Run({"generate", "--model", "m", "--prompt", "Say"});
  EXPECT_EQ(remote.code, 2);
  EXPECT_THAT(remote.err, HasSubstr("--model, --device, --config and --set "
                                    "need --local"));
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

TEST_F(GenerateCommand, FlagsBecomeTheRequest) {
  Run({"generate",
       "--chat",
       "Hi",
       "--max-tokens=5",
       "--temperature",
       "0.5",
       "--top-k",
       "3",
       "--top-p",
       "0.9",
       "--seed",
       "18446744073709551615",
       "--drafters",
       "lookup,bigram",
       "--strategy",
       "union",
       "--rule",
       "walk",
       "--nodes",
       "8",
       "--ignore-eos",
       "--stop-token-ids",
       "4,5",
       "--stop",
       "a, b",
       "--stop=c",
       "--include-stop",
       "--min-tokens=2",
       "--min-p=0.25",
       "--typical-p=0.5",
       "--repetition-penalty=1.5",
       "--frequency-penalty=-0.5",
       "--presence-penalty=0.75",
       "--logit-bias",
       "3:-1.5,8:2",
       "--bad-word=no",
       "--n=1",
       "--logprobs=3",
       "--prompt-logprobs=0",
       "--echo",
       "--json"});
  ASSERT_EQ(server_.requests().size(), 1u);
  const v1::GenerateRequest request = server_.requests()[0];
  ASSERT_EQ(request.chat().messages_size(), 1);
  EXPECT_EQ(request.chat().messages(0).role(), "user");
  EXPECT_EQ(request.chat().messages(0).content(), "Hi");
  EXPECT_EQ(request.max_tokens(), 5u);
  EXPECT_FLOAT_EQ(request.temperature(), 0.5);
  EXPECT_EQ(request.top_k(), 3u);
  EXPECT_FLOAT_EQ(request.top_p(), 0.9);
  EXPECT_EQ(request.seed(), 18446744073709551615u);
  EXPECT_TRUE(request.ignore_eos());
  EXPECT_THAT(request.stop_token_ids(), ElementsAre(4, 5));
  EXPECT_THAT(request.stop(), ElementsAre("a, b", "c"));
  EXPECT_TRUE(request.include_stop_str_in_output());
  EXPECT_EQ(request.min_tokens(), 2u);
  EXPECT_EQ(request.min_p(), 0.25f);
  EXPECT_EQ(request.typical_p(), 0.5f);
  EXPECT_EQ(request.repetition_penalty(), 1.5f);
  EXPECT_EQ(request.frequency_penalty(), -0.5f);
  EXPECT_EQ(request.presence_penalty(), 0.75f);
  EXPECT_EQ(request.logit_bias().at(3), -1.5f);
  EXPECT_EQ(request.logit_bias().at(8), 2.0f);
  EXPECT_THAT(request.bad_words(), ElementsAre("no"));
  EXPECT_EQ(request.n(), 1u);
  EXPECT_EQ(request.logprobs(), 3u);
  EXPECT_TRUE(request.has_prompt_logprobs());
  EXPECT_TRUE(request.echo());
  EXPECT_THAT(request.speculation().drafters(),
              ElementsAre("lookup", "bigram"));
  EXPECT_EQ(request.speculation().strategy(), "union");
  EXPECT_EQ(request.speculation().rule(), "walk");
  EXPECT_EQ(request.speculation().max_nodes(), 8u);
  EXPECT_FALSE(request.speculation().has_enabled());
}

TEST_F(GenerateCommand, SendsStructuredOutput) {
  const std::string file = ::testing::TempDir() + "schema.json";
  std::ofstream(file) << R"({"type": "object"})";
  Run({"generate", "--prompt=x", "--json-schema", file, "--compact-json"});
  Run({"generate", "--prompt=x", "--json-schema", "{}"});
  Run({"generate", "--prompt=x", "--regex", "a|b"});
  Run({"generate", "--prompt=x", "--choice", "yes", "--choice=no"});
  Run({"generate", "--prompt=x", "--grammar", "root ::= \"a\""});
  Run({"generate", "--prompt=x", "--structural-tag", "{\"a\": 1}"});
  Run({"generate", "--prompt=x", "--json-object"});
  ASSERT_EQ(server_.requests().size(), 7u);
  const auto sent = [this](int i) {
    return server_.requests()[i].structured_output();
  };
  EXPECT_EQ(sent(0).json_schema(), R"({"type": "object"})");
  EXPECT_TRUE(sent(0).disable_any_whitespace());
  EXPECT_EQ(sent(1).json_schema(), "{}");
  EXPECT_FALSE(sent(1).disable_any_whitespace());
  EXPECT_EQ(sent(2).regex(), "a|b");
  EXPECT_THAT(sent(3).choice().texts(), ElementsAre("yes", "no"));
  EXPECT_EQ(sent(4).grammar(), "root ::= \"a\"");
  EXPECT_EQ(sent(5).structural_tag(), "{\"a\": 1}");
  EXPECT_TRUE(sent(6).json_object());
}

TEST_F(GenerateCommand, RefusesTwoKindsOfStructuredOutput) {
  EXPECT_EQ(Run({"generate", "--prompt=x", "--regex=a", "--json-object"}).code,
            2);
  EXPECT_EQ(Run({"generate", "--prompt=x", "--compact-json"}).code, 2);
  EXPECT_EQ(Run({"generate", "--prompt=x", "--json-schema", "/no/file"}).code,
            2);
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(GenerateCommand, LeavesUnsetWhatIsNotGiven) {
  Run({"generate", "--token-ids", "1,2,3", "--no-speculation"});
  ASSERT_EQ(server_.requests().size(), 1u);
  const v1::GenerateRequest request = server_.requests()[0];
  EXPECT_THAT(request.token_ids().ids(), ElementsAre(1, 2, 3));
  EXPECT_FALSE(request.has_max_tokens());
  EXPECT_FALSE(request.has_temperature());
  EXPECT_FALSE(request.has_seed());
  EXPECT_TRUE(request.speculation().has_enabled());
  EXPECT_FALSE(request.speculation().enabled());
}

TEST_F(GenerateCommand, ReadsThePromptFromAFileOrStandardInput) {
  Run({"generate", "--prompt-file", Write("prompt.txt", "from a file\n")});
  Run({"generate", "--prompt-file", "-"}, "from the pipe");
  ASSERT_EQ(server_.requests().size(), 2u);
  EXPECT_EQ(server_.requests()[0].prompt(), "from a file\n");
  EXPECT_EQ(server_.requests()[1].prompt(), "from the pipe");
}

TEST_F(GenerateCommand, LocalAsksTheFactoryForACluster) {
  const CliResult result =
      Run({"generate", "--prompt", "Say", "--local", "--config", "serve.txt",
           "--set", "core.max_nodes=4", "--set", "verifier.threads=2"});
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(local_clusters_.size(), 1u);
  EXPECT_EQ(local_clusters_[0].config_file, "serve.txt");
  EXPECT_THAT(local_clusters_[0].overrides,
              ElementsAre("core.max_nodes=4", "verifier.threads=2"));
}

TEST_F(GenerateCommand, BadInputIsExit2AndSentNowhere) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "exactly one of --prompt, --chat, --prompt-file, --token-ids"},
      {{"--prompt", "a", "--chat", "b"}, "exactly one of"},
      {{"--prompt", "\xff\xfe"}, "--prompt: the text is not valid UTF-8"},
      {{"--prompt-file", "/no/such/file"}, "cannot open /no/such/file"},
      {{"--token-ids", "1,x"}, "--token-ids: in \"1,x\": \"x\" is not a whole"},
      {{"--token-ids", "1,,2"},
       "--token-ids: in \"1,,2\": an element is empty"},
      {{"--prompt", "a", "--seed", "-1"}, "--seed: \"-1\" is not a whole"},
      {{"--prompt", "a", "--temperature", "nan"}, "--temperature: \"nan\""},
      {{"--prompt", "a", "--timeout", "0"}, "--timeout: \"0\" is not a number"},
      {{"--prompt", "a", "--wat"}, "unknown flag --wat; known: --prompt, "},
      {{"--prompt", "a", "--address", "nowhere"}, "--address: \"nowhere\""},
      {{"--prompt", "a", "--address", "h:99999"}, "HOST:PORT or unix:PATH"},
      {{"--prompt", "a", "--local", "--address", "h:1"}, "exclude another"},
      {{"--prompt", "a", "--set", "a=b"}, "need --local"},
      {{"--prompt", "a", "stray"}, "unexpected argument \"stray\""},
  };
  for (const auto& [flags, message] : cases) {
    std::vector<std::string> args = {"generate"};
    args.insert(args.end(), flags.begin(), flags.end());
    const CliResult result = Run(args);
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_EQ(result.out, "") << message;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
  EXPECT_TRUE(server_.requests().empty());
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
