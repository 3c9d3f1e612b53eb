// Structured output as clients get it, with the quick start's model and
// processes of their own: what comes matches, and speculation does not change
// it.

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/integration/cluster.h"
#include "tests/integration/default_model.h"

namespace espalier::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr char kPerson[] =
    R"({"type":"object","properties":{"name":{"type":"string"},)"
    R"("age":{"type":"integer","minimum":0,"maximum":120},)"
    R"("languages":{"type":"array","items":{"enum":["C++","Rust","Python"]},)"
    R"("maxItems":3}},"required":["name","age","languages"],)"
    R"("additionalProperties":false})";

class StructuredOutputTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasDefaultModel()) {
      GTEST_SKIP() << "no default model: run deploy/setup.sh";
    }
    cluster_.emplace(Cluster::Options{
        .model = DefaultModelFolder(),
        .drafters = {{.name = "lookup", .type = "prompt_lookup"},
                     {.name = "grammar", .type = "grammar"}},
        .coordinator_sets = {kWaitForDrafters}});
    cluster_->AwaitReady();
  }

  using Change = std::function<void(v1::GenerateRequest&)>;
  Generated Ask(const Change& change) {
    v1::GenerateRequest request;
    v1::ChatMessage& message = *request.mutable_chat()->add_messages();
    message.set_role("user");
    message.set_content("Describe a programmer in JSON: name, age, languages.");
    request.set_max_tokens(48);
    change(request);
    return Generate(cluster_->stub(), request);
  }

  std::optional<Cluster> cluster_;
};

TEST_F(StructuredOutputTest, SpeculationDoesNotChangeIt) {
  const std::vector<std::pair<std::string, Change>> kinds = {
      {"schema",
       [](auto& r) {
         r.mutable_structured_output()->set_json_schema(kPerson);
       }},
      {"one line",
       [](auto& r) {
         r.mutable_structured_output()->set_json_schema(kPerson);
         r.mutable_structured_output()->set_disable_any_whitespace(true);
       }},
      {"regex and penalties",
       [](auto& r) {
         r.mutable_structured_output()->set_regex("([A-Z][a-z]{2,9} ){2,6}end");
         r.set_repetition_penalty(1.3f);
         r.set_top_p(0.9f);
       }},
      {"grammar and minimum",
       [](auto& r) {
         r.mutable_structured_output()->set_grammar(
             "root ::= item (\", \" item)*\nitem ::= [a-z]+ \"=\" [0-9]+");
         r.set_min_tokens(12);
         r.set_max_tokens(24);
       }},
  };
  int64_t accepted = 0;
  for (const auto& [name, kind] : kinds) {
    for (const float temperature : {0.0f, 1.0f}) {
      for (const uint64_t seed : {1, 2}) {
        if (temperature == 0 && seed > 1) continue;
        const auto ask = [&, &set = kind](bool speculate) {
          return Ask([&](v1::GenerateRequest& request) {
            set(request);
            request.set_temperature(temperature);
            request.set_seed(seed);
            request.mutable_speculation()->set_enabled(speculate);
            if (!speculate) return;
            // On a busy machine `budgeted` may find that no draft pays.
            request.mutable_speculation()->set_strategy("union");
            request.mutable_speculation()->set_max_nodes(8);
          });
        };
        const Generated plain = ask(false), drafted = ask(true);
        ASSERT_TRUE(plain.status.ok()) << plain.status.error_message();
        EXPECT_FALSE(plain.text.empty());
        EXPECT_EQ(drafted.token_ids, plain.token_ids)
            << name << " at temperature " << temperature << ", seed " << seed;
        accepted += drafted.summary.spec_stats().num_accepted_draft_tokens();
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST_F(StructuredOutputTest, TheAnswerMatches) {
  const Generated person = Ask([](v1::GenerateRequest& request) {
    request.mutable_structured_output()->set_json_schema(kPerson);
    request.mutable_structured_output()->set_disable_any_whitespace(true);
  });
  ASSERT_EQ(person.summary.finish_reason(), v1::FINISH_REASON_STOP);
  const auto json = nlohmann::json::parse(person.text);
  EXPECT_TRUE(json.at("name").is_string());
  EXPECT_LE(json.at("age").get<int>(), 120);
  EXPECT_LE(json.at("languages").size(), 3u);
  const Generated choice = Ask([](v1::GenerateRequest& request) {
    auto& texts = *request.mutable_structured_output()->mutable_choice();
    texts.add_texts("yes");
    texts.add_texts("no");
  });
  EXPECT_THAT(choice.text, AnyOf("yes", "no"));
  const Generated date = Ask([](v1::GenerateRequest& request) {
    request.set_temperature(1);
    request.set_seed(7);
    request.mutable_structured_output()->set_regex(
        "[0-9]{4}-[0-9]{2}-[0-9]{2}");
  });
  EXPECT_THAT(date.text, MatchesRegex("[0-9]+-[0-9]+-[0-9]+"));
  EXPECT_EQ(date.text.size(), 10u);
}

// The drafter drafts alone.
TEST_F(StructuredOutputTest, ForcedTextIsDrafted) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  const Generated forced = Ask([&](v1::GenerateRequest& request) {
    request.mutable_structured_output()->mutable_choice()->add_texts(text);
    request.mutable_speculation()->add_drafters("grammar");
    request.mutable_speculation()->set_strategy("single");
    request.mutable_speculation()->set_max_nodes(8);
  });
  EXPECT_EQ(forced.text, text);
  EXPECT_GT(forced.summary.spec_stats().mean_acceptance_length(), 1.2);
}

TEST_F(StructuredOutputTest, WhatCannotBeFollowedIsRefusedAndOthersGoOn) {
  const auto refusal = [&](const Change& change) {
    const Generated refused = Ask(change);
    EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return refused.status.error_message();
  };
  EXPECT_THAT(
      refusal([](auto& r) { r.mutable_structured_output()->set_regex("(a"); }),
      HasSubstr("structured_output.regex"));
  EXPECT_THAT(refusal([](auto& r) {
                r.mutable_structured_output()->set_regex("([a-z]*){1,9999}");
              }),
              HasSubstr("structured_output.regex"));
  EXPECT_THAT(refusal([](auto& r) {
                r.mutable_structured_output()->set_json_schema(
                    std::string(1 << 20, '['));
              }),
              HasSubstr("structured_output.json_schema"));
  EXPECT_THAT(refusal([](auto& r) {
                r.mutable_structured_output()->set_json_schema(
                    R"({"type":"array","contains":{"const":1}})");
              }),
              HasSubstr("contains: is not supported"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_structured_output(); }),
              HasSubstr("structured_output: has no constraint"));
  EXPECT_TRUE(Ask([](auto& r) { r.set_max_tokens(4); }).status.ok());
}

// Returns nested repeats, with which a compiler is busy for minutes if it is
// let.
std::string Bomb(char first) {
  return std::string("root ::= ([") + first +
         "-z ]{0,60} [0-9a-z ]{0,60} [a-z]{0,60}){0,60}";
}

TEST_F(StructuredOutputTest, BombsAreInNobodysWay) {
  std::vector<std::thread> bombs;
  for (const char first : {'a', 'b', 'c'}) {
    bombs.emplace_back([this, first] {
      const Generated bomb = Ask([&](v1::GenerateRequest& request) {
        request.mutable_structured_output()->set_grammar(Bomb(first));
      });
      EXPECT_FALSE(bomb.status.ok());
      EXPECT_THAT(bomb.status.error_message(), HasSubstr("repeats"));
    });
  }
  const Generated person = Ask([](v1::GenerateRequest& request) {
    request.mutable_structured_output()->set_json_schema(kPerson);
  });
  EXPECT_TRUE(person.status.ok()) << person.status.error_message();
  for (std::thread& bomb : bombs) bomb.join();
}

TEST_F(StructuredOutputTest, AnAmbiguousGrammarEndsWithItsLimit) {
  const Generated ambiguous = Ask([](v1::GenerateRequest& request) {
    request.mutable_structured_output()->set_grammar(
        "root ::= s\ns ::= s s | [a-z ] | \"\"");
    request.set_min_tokens(400);
    request.set_max_tokens(400);
  });
  EXPECT_EQ(ambiguous.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(ambiguous.status.error_message(),
              HasSubstr("structured_output.grammar: a step"));
}

}  // namespace
}  // namespace espalier::testing
