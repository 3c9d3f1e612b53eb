// Every request option alone, and every pair in requests with three, on the
// quick start's model: tokens, text and log-probabilities with speculation are
// those of plain decoding.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"
#include "tests/integration/default_model.h"

namespace espalier::testing::feature_matrix_test {
namespace {

struct Feature {
  const char* name;
  std::function<void(v1::GenerateRequest&)> apply;
  bool is_form = false;  // a request has one form, the last
};

// A further option is one line here.
const std::vector<Feature>& Features() {
  static const auto* features = new std::vector<Feature>{
      {"temperature", [](auto& r) { r.set_temperature(0.8f); }},
      {"top_k", [](auto& r) { r.set_top_k(40); }},
      {"top_p", [](auto& r) { r.set_top_p(0.9f); }},
      {"min_p", [](auto& r) { r.set_min_p(0.05f); }},
      {"typical_p", [](auto& r) { r.set_typical_p(0.9f); }},
      {"repetition_penalty", [](auto& r) { r.set_repetition_penalty(1.2f); }},
      {"frequency_penalty", [](auto& r) { r.set_frequency_penalty(0.5f); }},
      {"presence_penalty", [](auto& r) { r.set_presence_penalty(0.5f); }},
      {"logit_bias", [](auto& r) { (*r.mutable_logit_bias())[28] = 3; }},
      {"bad_words", [](auto& r) { r.add_bad_words("rivers"); }},
      {"min_tokens", [](auto& r) { r.set_min_tokens(16); }},
      {"stop", [](auto& r) { r.add_stop(" the "); }},
      {"stop_token_ids", [](auto& r) { r.add_stop_token_ids(30); }},
      {"ignore_eos", [](auto& r) { r.set_ignore_eos(true); }},
      {"prompt_logprobs", [](auto& r) { r.set_prompt_logprobs(1); }},
      {"n", [](auto& r) { r.set_n(2); }},
      {"cache_salt", [](auto& r) { r.set_cache_salt("salt"); }},
      {"priority", [](auto& r) { r.set_priority(1); }},
      {"json_schema",
       [](auto& r) {
         r.mutable_structured_output()->set_json_schema(
             R"({"type": "object", "properties": {"rivers": {"type": "array",
                 "items": {"type": "string"}}}, "required": ["rivers"],
                 "additionalProperties": false})");
       },
       /*is_form=*/true},
      {"regex",
       [](auto& r) {
         r.mutable_structured_output()->set_regex("[A-Z][a-z ,]{10,60}");
       },
       /*is_form=*/true},
  };
  return *features;
}

// What the client sees of all outputs, except what says how fast it was.
struct Seen {
  std::map<uint32_t, std::vector<uint32_t>> tokens;
  std::map<uint32_t, std::string> texts, logprobs, ends;
  std::string prompt;

  auto fields() const {
    return std::tie(tokens, texts, logprobs, ends, prompt);
  }
  friend bool operator==(const Seen& a, const Seen& b) {
    return a.fields() == b.fields();
  }
};

class FeatureMatrixTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasDefaultModel()) {
      GTEST_SKIP() << "no default model: run deploy/setup.sh";
    }
    const std::string drafters = DefaultModelFolder() + "/drafters/";
    cluster_.emplace(Cluster::Options{
        .model = DefaultModelFolder(),
        .drafters = {{.name = "lookup", .type = "prompt_lookup"},
                     {.name = "chat",
                      .type = "eagle",
                      .options = {{"model", drafters + "chat"}}}},
        .coordinator_sets = {kWaitForDrafters}});
    cluster_->AwaitReady();
  }

  Seen Run(const v1::GenerateRequest& request) {
    Seen seen;
    const Generated done = Generate(
        cluster_->stub(), request,
        [&](const v1::GenerateResponse& m, grpc::ClientContext&) {
          auto& tokens = seen.tokens[m.index()];
          tokens.insert(tokens.end(), m.token_ids().begin(),
                        m.token_ids().end());
          seen.texts[m.index()] += m.text();
          for (const auto& p : m.logprobs()) {
            seen.logprobs[m.index()] += p.SerializeAsString();
          }
          seen.prompt += m.prompt().SerializeAsString();
          if (m.has_summary()) {
            num_drafts_ += m.summary().spec_stats().num_draft_tokens();
            v1::Usage usage = m.summary().usage();
            usage.clear_cached_tokens();  // the second time there are more
            seen.ends[m.index()] = absl::StrCat(
                m.summary().finish_reason(), " ", m.summary().matched_stop(),
                " ", m.summary().matched_stop_token_id(), " ",
                usage.ShortDebugString());
          }
        });
    EXPECT_TRUE(done.status.ok()) << done.status.error_message();
    return seen;
  }

  void ExpectLossless(const std::vector<size_t>& set) {
    const std::vector<Feature>& features = Features();
    v1::GenerateRequest request;
    v1::ChatMessage& message = *request.mutable_chat()->add_messages();
    message.set_role("user");
    message.set_content("Name the rivers of the land, and the rivers again.");
    request.set_temperature(1);
    request.set_seed(set.front() * 100 + set.back());
    request.set_max_tokens(20);
    request.set_logprobs(3);
    std::string names;
    for (size_t i : set) {
      features[i].apply(request);
      absl::StrAppend(&names, features[i].name, " ");
    }
    request.mutable_speculation()->set_max_nodes(6);
    const Seen drafted = Run(request);
    request.mutable_speculation()->set_enabled(false);
    EXPECT_EQ(drafted, Run(request)) << names;
  }

  std::optional<Cluster> cluster_;
  int64_t num_drafts_ = 0;
};

// Returns threes that hold every pair of features, by their index. Two forms
// are not met beside a third: the first of them would not count.
std::vector<std::vector<size_t>> Threes(const std::vector<Feature>& features) {
  std::vector<std::vector<size_t>> sets;
  std::set<std::pair<size_t, size_t>> met;
  const auto is_new = [&](size_t a, size_t b) {
    return a != b && !met.contains(std::minmax(a, b));
  };
  const auto are_forms = [&](size_t a, size_t b) {
    return features[a].is_form && features[b].is_form;
  };
  for (size_t i = 0; i < features.size(); ++i) {
    for (size_t j = i + 1; j < features.size(); ++j) {
      if (!is_new(i, j)) continue;
      std::vector<size_t> set = {i, j};
      int most = 0;
      for (size_t k = 0; k < features.size() && !are_forms(i, j); ++k) {
        if (k == i || k == j || are_forms(i, k) || are_forms(j, k)) continue;
        const int gain = is_new(i, k) + is_new(j, k);
        if (gain <= most) continue;
        most = gain;
        set = {i, j, k};
      }
      for (size_t x : set) {
        for (size_t y : set) met.insert(std::minmax(x, y));
      }
      sets.push_back(std::move(set));
    }
  }
  return sets;
}

TEST_F(FeatureMatrixTest, EveryOptionIsLossless) {
  for (size_t i = 0; i < Features().size(); ++i) ExpectLossless({i});
  EXPECT_GT(num_drafts_, 200);
}

TEST_F(FeatureMatrixTest, NightlyEveryPairOfOptionsIsLossless) {
  for (const auto& set : Threes(Features())) ExpectLossless(set);
  EXPECT_GT(num_drafts_, 1000);
}

}  // namespace
}  // namespace espalier::testing::feature_matrix_test
