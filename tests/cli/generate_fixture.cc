#include "tests/cli/generate_fixture.h"

namespace espalier::testing {

v1::GenerateResponse Message(std::initializer_list<uint32_t> ids,
                             const std::string& text) {
  v1::GenerateResponse message;
  message.mutable_token_ids()->Assign(ids.begin(), ids.end());
  message.set_text(text);
  return message;
}

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

}  // namespace espalier::testing

namespace espalier::cli {

GenerateCommand::GenerateCommand() {
  server_.SetScript(
      [](const v1::GenerateRequest&) { return testing::HelloWorld(); });
}

}  // namespace espalier::cli
