#include "coordinator/http/usage_json.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/http/chat_request.h"

namespace espalier::coordinator {
namespace {

v1::DrafterStats& Of(const std::string& name, v1::SpecStats& stats) {
  for (v1::DrafterStats& drafter : *stats.mutable_drafters()) {
    if (drafter.name() == name) return drafter;
  }
  v1::DrafterStats& added = *stats.add_drafters();
  added.set_name(name);
  return added;
}

}  // namespace

void UsageSum::Add(const v1::GenerateResponse& last) {
  const v1::GenerateSummary& summary = last.summary();
  if (last.index() == 0) {
    prompt_tokens_ += summary.usage().prompt_tokens();
    cached_tokens_ += summary.usage().cached_tokens();
  }
  completion_tokens_ += summary.usage().completion_tokens();
  has_stats_ = summary.has_spec_stats();
  AddStats(summary.spec_stats());
  if (summary.timing().total_ms() >= timing_.total_ms()) {
    timing_ = summary.timing();
  }
  seeds_.push_back(summary.seed());
  for (const std::string& warning : summary.warnings()) {
    // Nobody has asked for it.
    const std::string of_default = absl::StrCat("max_tokens: ", kAllThatFit);
    if (absl::StartsWith(warning, of_default)) continue;
    if (std::find(warnings_.begin(), warnings_.end(), warning) ==
        warnings_.end()) {
      warnings_.push_back(warning);
    }
  }
}

// Counts what this call has emitted: an earlier one may have begun the output.
void UsageSum::AddStats(const v1::SpecStats& stats) {
  emitted_ +=
      std::llround(stats.mean_acceptance_length() * stats.num_spec_steps());
  stats_.set_num_spec_steps(stats_.num_spec_steps() + stats.num_spec_steps());
  stats_.set_num_draft_tokens(stats_.num_draft_tokens() +
                              stats.num_draft_tokens());
  stats_.set_num_accepted_draft_tokens(stats_.num_accepted_draft_tokens() +
                                       stats.num_accepted_draft_tokens());
  stats_.set_degraded_steps(stats_.degraded_steps() + stats.degraded_steps());
  stats_.set_plain_steps(stats_.plain_steps() + stats.plain_steps());
  stats_.set_balance_ms(stats_.balance_ms() + stats.balance_ms());
  stats_.set_plain_round_ms(stats.plain_round_ms());
  stats_.set_strategy(stats.strategy());
  stats_.set_rule(stats.rule());
  for (const v1::DrafterStats& drafter : stats.drafters()) {
    v1::DrafterStats& sum = Of(drafter.name(), stats_);
    sum.set_proposed(sum.proposed() + drafter.proposed());
    sum.set_accepted(sum.accepted() + drafter.accepted());
    sum.set_uniquely_accepted(sum.uniquely_accepted() +
                              drafter.uniquely_accepted());
    sum.set_timeouts(sum.timeouts() + drafter.timeouts());
    sum.set_errors(sum.errors() + drafter.errors());
  }
}

Json UsageSum::OpenAiUsage() const {
  Json usage = {{"prompt_tokens", prompt_tokens_},
                {"completion_tokens", completion_tokens_},
                {"total_tokens", prompt_tokens_ + completion_tokens_},
                {"prompt_tokens_details", {{"cached_tokens", cached_tokens_}}}};
  if (has_stats_) {
    const int64_t accepted = stats_.num_accepted_draft_tokens();
    usage["completion_tokens_details"] = {
        {"accepted_prediction_tokens", accepted},
        {"rejected_prediction_tokens", stats_.num_draft_tokens() - accepted}};
  }
  return usage;
}

Json UsageSum::Drafters() const {
  Json drafters = Json::array();
  for (const v1::DrafterStats& drafter : stats_.drafters()) {
    const double share =
        emitted_ == 0 ? 0 : static_cast<double>(drafter.accepted()) / emitted_;
    drafters.push_back({{"name", drafter.name()},
                        {"share", share},
                        {"proposed", drafter.proposed()},
                        {"accepted", drafter.accepted()},
                        {"uniquely_accepted", drafter.uniquely_accepted()},
                        {"timeouts", drafter.timeouts()},
                        {"errors", drafter.errors()}});
  }
  return drafters;
}

Json UsageSum::Espalier() const {
  if (!has_stats_) {
    return {{"timing",
             {{"queue_ms", timing_.queue_ms()},
              {"time_to_first_token_ms", timing_.time_to_first_token_ms()}}},
            {"seeds", seeds_},
            {"warnings", warnings_}};
  }
  const uint32_t rounds = stats_.num_spec_steps();
  return {{"tau", rounds == 0 ? 0.0 : static_cast<double>(emitted_) / rounds},
          {"rounds", rounds},
          {"draft_tokens", stats_.num_draft_tokens()},
          {"accepted_draft_tokens", stats_.num_accepted_draft_tokens()},
          {"plain_rounds", stats_.plain_steps()},
          {"degraded_rounds", stats_.degraded_steps()},
          {"strategy", stats_.strategy()},
          {"rule", stats_.rule()},
          {"balance_ms", stats_.balance_ms()},
          {"plain_round_ms", stats_.plain_round_ms()},
          {"drafters", Drafters()},
          {"timing",
           {{"queue_ms", timing_.queue_ms()},
            {"time_to_first_token_ms", timing_.time_to_first_token_ms()},
            {"total_ms", timing_.total_ms()},
            {"draft_ms", timing_.draft_ms()},
            {"merge_ms", timing_.merge_ms()},
            {"verify_ms", timing_.verify_ms()},
            {"wire_ms", timing_.wire_ms()}}},
          {"seeds", seeds_},
          {"warnings", warnings_}};
}

}  // namespace espalier::coordinator
