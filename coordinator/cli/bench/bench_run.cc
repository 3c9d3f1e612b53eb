#include "coordinator/cli/bench/bench_run.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/secret_number.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"

namespace espalier::cli {

absl::StatusOr<std::vector<BenchRow>> BenchRun::Run(const PromptSuite& suite) {
  const size_t num_modes = plan_.modes.size();
  const std::optional<size_t> plain = PlainIndex();
  const size_t num_prompts = std::min(plan_.limit, suite.prompts.size());
  Tallies tallies(plan_.temperatures.size(),
                  std::vector<BenchTally>(num_modes));
  for (size_t i = 0; i < num_prompts; ++i) {
    ReportProgress(suite, i, num_prompts);
    for (size_t t = 0; t < plan_.temperatures.size(); ++t) {
      const float temperature = plan_.temperatures[t];
      ASSIGN_OR_RETURN(const std::vector<Answer> answers,
                       AskAll(suite.prompts[i], temperature, plan_.seed + i));
      for (size_t m = 0; m < num_modes; ++m) {
        tallies[t][m].Add(answers[m], plain ? &answers[*plain] : nullptr);
      }
      ReportMismatches(suite.prompts[i], temperature, answers);
    }
  }
  ReportProgress(suite, num_prompts, num_prompts);
  if (totals_.empty()) {
    totals_ = tallies;
  } else {
    for (size_t t = 0; t < tallies.size(); ++t) {
      for (size_t m = 0; m < num_modes; ++m) totals_[t][m].Add(tallies[t][m]);
    }
  }
  return Rows(suite.name, tallies);
}

std::vector<BenchRow> BenchRun::Rows(const std::string& suite,
                                     const Tallies& tallies) const {
  const std::optional<size_t> plain = PlainIndex();
  std::vector<BenchRow> rows;
  for (size_t t = 0; t < tallies.size(); ++t) {
    for (size_t m = 0; m < plan_.modes.size(); ++m) {
      BenchRow& row = rows.emplace_back();
      row.suite = suite;
      row.mode = plan_.modes[m].name;
      row.temperature = plan_.temperatures[t];
      row.nodes = NodesOf(plan_.modes[m]);
      tallies[t][m].Fill(row, plain ? &tallies[t][*plain] : nullptr);
    }
  }
  return rows;
}

std::optional<uint32_t> BenchRun::NodesOf(const BenchMode& mode) const {
  if (mode.is_plain()) return 0;
  return mode.nodes ? mode.nodes : plan_.nodes;
}

absl::StatusOr<std::vector<Answer>> BenchRun::AskAll(const SuitePrompt& prompt,
                                                     float temperature,
                                                     uint64_t seed) {
  const size_t num_modes = plan_.modes.size();
  const CallOptions call = {.timeout = plan_.timeout,
                            .interrupt = context_.interrupt};
  std::vector<Answer> answers(num_modes);
  for (size_t turn = 0; turn < num_modes; ++turn) {
    const size_t m = (first_mode_ + turn) % num_modes;
    v1::GenerateRequest request = prompt.request;
    request.set_temperature(temperature);
    request.set_seed(seed);
    request.set_max_tokens(plan_.max_tokens);
    // No mode profits from the prompt that another has computed.
    request.set_cache_salt(absl::StrCat(SecretNumber()));
    v1::SpeculationOptions& speculation = *request.mutable_speculation();
    if (plan_.nodes) speculation.set_max_nodes(*plan_.nodes);
    plan_.modes[m].ApplyTo(speculation);
    ASSIGN_OR_RETURN(
        answers[m],
        WithPrefix(
            absl::StrCat("prompt ", prompt.id, ", mode ", plan_.modes[m].name),
            client_.Generate(request, call,
                             [](const std::string&) { return true; })));
  }
  first_mode_ = (first_mode_ + 1) % num_modes;
  return answers;
}

void BenchRun::ReportMismatches(const SuitePrompt& prompt, float temperature,
                                const std::vector<Answer>& answers) {
  const std::optional<size_t> plain = PlainIndex();
  if (!plain) return;
  const std::vector<uint32_t>& wanted = answers[*plain].token_ids;
  for (size_t m = 0; m < answers.size(); ++m) {
    const std::vector<uint32_t>& ids = answers[m].token_ids;
    if (ids == wanted) continue;
    const auto differ =
        std::mismatch(wanted.begin(), wanted.end(), ids.begin(), ids.end());
    context_.err << absl::StreamFormat(
        "prompt %s, temperature %g: %s differs from plain at token %d "
        "(near ties in it: %d)\n",
        prompt.id, temperature, plan_.modes[m].name,
        differ.first - wanted.begin(),
        answers[m].summary.spec_stats().near_ties());
  }
}

void BenchRun::ReportProgress(const PromptSuite& suite, size_t done,
                              size_t of) {
  if (!context_.err_is_terminal) return;
  context_.err << absl::StreamFormat("\r%s %d/%d%s", suite.name, done, of,
                                     done == of ? "\r\033[K" : " ")
               << std::flush;
}

std::optional<size_t> BenchRun::PlainIndex() const {
  for (size_t m = 0; m < plan_.modes.size(); ++m) {
    if (plan_.modes[m].is_plain()) return m;
  }
  return std::nullopt;
}

}  // namespace espalier::cli
