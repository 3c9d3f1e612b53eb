#include "coordinator/cli/answer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/printable.h"
#include "common/json/ordered_json.h"
#include "nlohmann/json.hpp"

namespace espalier::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string FinishReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    default:
      return "unspecified";
  }
}

Json UsageJson(const v1::Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens()},
          {"completion_tokens", usage.completion_tokens()},
          {"total_tokens", usage.total_tokens()},
          {"cached_tokens", usage.cached_tokens()}};
}

Json DrafterJson(const v1::DrafterStats& drafter) {
  return {{"name", drafter.name()},
          {"proposed", drafter.proposed()},
          {"accepted", drafter.accepted()},
          {"uniquely_accepted", drafter.uniquely_accepted()},
          {"timeouts", drafter.timeouts()},
          {"errors", drafter.errors()}};
}

Json SpecStatsJson(const v1::SpecStats& stats) {
  Json drafters = Json::array();
  for (const auto& drafter : stats.drafters()) {
    drafters.push_back(DrafterJson(drafter));
  }
  Json histogram = Json::array();
  for (uint32_t count : stats.acceptance_histogram()) {
    histogram.push_back(count);
  }
  return {{"num_spec_steps", stats.num_spec_steps()},
          {"num_draft_tokens", stats.num_draft_tokens()},
          {"num_accepted_draft_tokens", stats.num_accepted_draft_tokens()},
          {"mean_acceptance_length", stats.mean_acceptance_length()},
          {"draft_acceptance_rate", stats.draft_acceptance_rate()},
          {"acceptance_histogram", std::move(histogram)},
          {"drafters", std::move(drafters)},
          {"strategy", stats.strategy()},
          {"rule", stats.rule()},
          {"degraded_steps", stats.degraded_steps()},
          {"near_ties", stats.near_ties()},
          {"balance_ms", stats.balance_ms()},
          {"plain_round_ms", stats.plain_round_ms()},
          {"plain_steps", stats.plain_steps()}};
}

Json TimingJson(const Answer& answer) {
  const v1::Timing& timing = answer.summary.timing();
  const auto speed = DecodeSpeedOf(answer).TokensPerSecond();
  return {{"queue_ms", timing.queue_ms()},
          {"time_to_first_token_ms", timing.time_to_first_token_ms()},
          {"total_ms", timing.total_ms()},
          {"draft_ms", timing.draft_ms()},
          {"merge_ms", timing.merge_ms()},
          {"verify_ms", timing.verify_ms()},
          {"wire_ms", timing.wire_ms()},
          {"tokens_per_s", speed ? Json(*speed) : Json(nullptr)}};
}

Json TokenJson(const v1::TokenLogprob& token) {
  return {{"token_id", token.token_id()},
          {"token", token.token()},
          {"logprob", token.logprob()}};
}

template <typename Positions>
Json LogprobsJson(const Positions& positions) {
  Json list = Json::array();
  for (const v1::PositionLogprobs& position : positions) {
    Json top = Json::array();
    for (const v1::TokenLogprob& token : position.top()) {
      top.push_back(TokenJson(token));
    }
    Json entry = TokenJson(position.chosen());
    entry["top"] = std::move(top);
    list.push_back(std::move(entry));
  }
  return list;
}

Json PromptJson(const v1::ReturnedPrompt& prompt) {
  return {{"token_ids", std::vector<uint32_t>(prompt.token_ids().begin(),
                                              prompt.token_ids().end())},
          {"text", prompt.text()},
          {"logprobs", LogprobsJson(prompt.logprobs())}};
}

// Share of the accepted draft tokens that each drafter had proposed.
std::string Shares(const v1::SpecStats& stats) {
  if (stats.num_draft_tokens() == 0) return "nothing drafted";
  if (stats.num_accepted_draft_tokens() == 0) return "no draft accepted";
  std::string shares;
  for (const auto& drafter : stats.drafters()) {
    absl::StrAppendFormat(
        &shares, "%s%s %.0f %%", shares.empty() ? "accepted from " : ", ",
        drafter.name(),
        100.0 * drafter.accepted() / stats.num_accepted_draft_tokens());
  }
  return shares;
}

// The time that speculation won or lost; empty: not measured.
std::string Balance(const v1::SpecStats& stats) {
  if (stats.plain_round_ms() <= 0) return "";
  return absl::StrFormat(" | %s %.0f ms by speculation",
                         stats.balance_ms() < 0 ? "lost" : "won",
                         std::abs(stats.balance_ms()));
}

// When the first token came, and how fast the part of the prompt that was not
// cached went: up to then everything is prefill but for the wait in the queue.
std::string PromptTime(const v1::GenerateSummary& summary) {
  const v1::Timing& timing = summary.timing();
  std::string text = absl::StrFormat("first token after %.0f ms",
                                     timing.time_to_first_token_ms());
  const int64_t computed = int64_t{summary.usage().prompt_tokens()} -
                           int64_t{summary.usage().cached_tokens()};
  const double ms = timing.time_to_first_token_ms() - timing.queue_ms();
  if (computed > 0 && ms > 0) {
    absl::StrAppendFormat(&text, ", prompt %.0f tokens/s",
                          1e3 * static_cast<double>(computed) / ms);
  }
  return text;
}

}  // namespace

void DecodeSpeed::Add(const DecodeSpeed& other) {
  tokens += other.tokens;
  ms += other.ms;
}

std::optional<double> DecodeSpeed::TokensPerSecond() const {
  if (tokens <= 0 || ms <= 0) return std::nullopt;
  return 1e3 * static_cast<double>(tokens) / ms;
}

DecodeSpeed DecodeSpeedOf(const Answer& answer) {
  const v1::Timing& timing = answer.summary.timing();
  const int64_t behind_first = static_cast<int64_t>(answer.token_ids.size()) -
                               answer.resumed_tokens -
                               answer.first_message_tokens;
  if (behind_first <= 0) return {};
  return {.tokens = behind_first,
          .ms = timing.total_ms() - timing.time_to_first_token_ms()};
}

std::string ToJson(const Answer& answer) {
  const v1::GenerateSummary& summary = answer.summary;
  Json json = {
      {"index", answer.index},
      {"token_ids", answer.token_ids},
      {"text", answer.text},
      {"finish_reason", FinishReasonName(summary.finish_reason())},
      {"usage", UsageJson(summary.usage())},
      {"spec_stats", summary.has_spec_stats()
                         ? SpecStatsJson(summary.spec_stats())
                         : Json(nullptr)},
      {"timing", TimingJson(answer)},
      {"seed", summary.seed()},
      {"request_id", answer.request_id},
      {"warnings", WarningsOf(answer)},
  };
  if (!answer.logprobs.empty())
    json["logprobs"] = LogprobsJson(answer.logprobs);
  if (answer.resumptions > 0) json["resumptions"] = answer.resumptions;
  if (answer.prompt) json["prompt"] = PromptJson(*answer.prompt);
  return ToText(json);
}

std::vector<std::string> WarningsOf(const Answer& answer) {
  constexpr size_t kShownBytes = 512;
  std::vector<std::string> warnings;
  for (const std::string& warning : answer.summary.warnings()) {
    warnings.push_back(Printable(warning, kShownBytes));
  }
  return warnings;
}

std::string ToLine(const Answer& answer) {
  const v1::SpecStats& stats = answer.summary.spec_stats();
  const auto speed = DecodeSpeedOf(answer).TokensPerSecond();
  if (!answer.summary.has_spec_stats()) {  // paced
    return absl::StrFormat(
        "%d tokens (%s) | %s",
        static_cast<int64_t>(answer.token_ids.size()) - answer.resumed_tokens,
        FinishReasonName(answer.summary.finish_reason()),
        PromptTime(answer.summary));
  }
  std::string line = absl::StrFormat(
      "tau %.2f | %s tokens/s | %d tokens in %d verifications (%s)",
      stats.mean_acceptance_length(),
      speed ? absl::StrFormat("%.1f", *speed) : std::string("-"),
      static_cast<int64_t>(answer.token_ids.size()) - answer.resumed_tokens,
      stats.num_spec_steps(), FinishReasonName(answer.summary.finish_reason()));
  if (stats.drafters_size() > 0) {
    absl::StrAppend(&line, " | ", Shares(stats));
  }
  line += Balance(stats);
  if (answer.resumptions > 0) {
    absl::StrAppendFormat(&line, " | resumed %d times after %d tokens",
                          answer.resumptions, answer.resumed_tokens);
  }
  absl::StrAppend(&line, " | ", PromptTime(answer.summary));
  return line;
}

}  // namespace espalier::cli
