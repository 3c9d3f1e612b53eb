#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/cli/generate_fixture.h"

namespace espalier::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace espalier::cli
