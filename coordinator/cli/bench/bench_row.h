#ifndef ESPALIER_COORDINATOR_CLI_BENCH_BENCH_ROW_H_
#define ESPALIER_COORDINATOR_CLI_BENCH_BENCH_ROW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/cli/answer.h"

namespace espalier::cli {

struct StageMs {
  double draft = 0;
  double merge = 0;
  double verify = 0;
  double wire = 0;
  double other = 0;
};

// One line of a benchmark: a mode's answers to a suite at one temperature.
struct BenchRow {
  std::string suite;
  std::string mode;
  float temperature = 0;
  std::optional<uint32_t> nodes;  // requested budget; unset: default
  int64_t prompts = 0;
  double tau = 0;  // emitted tokens per verification
  std::optional<double> tokens_per_s;
  std::optional<double> speedup;  // against plain; unset: no plain in the run
  // One standard error of the speedup, from how much it differs between
  // prompts; unset: no plain, or less than two prompts.
  std::optional<double> speedup_error;
  int64_t rounds = 0;  // verifications
  double nodes_per_round = 0;
  // [d]: fraction of the verifications that accepted a token at depth d + 1.
  std::vector<double> accepted_at_depth;
  StageMs stage_ms;       // of a round; the first one includes the prefill
  double repetition = 0;  // fraction of 4-grams that had appeared before
  std::optional<int64_t> same_text;  // prompts with the same text as plain
};

// Counts of an answer's 4-grams and of those that had appeared before. A
// repetitive answer is easy to draft, so read tau together with this.
struct Repetition {
  int64_t repeated = 0;
  int64_t total = 0;
};
Repetition CountRepetition(absl::Span<const uint32_t> token_ids);

// Adds up a mode's answers.
class BenchTally {
 public:
  // `plain`: answer to the same request by plain decoding; null: not in the
  // run.
  void Add(const Answer& answer, const Answer* plain);

  // Adds the answers of another tally of the same mode.
  void Add(const BenchTally& other);

  // Fills in the values of the answers. `plain`: tally of plain decoding in the
  // same run; null: none.
  void Fill(BenchRow& row, const BenchTally* plain) const;

 private:
  // Returns the error of the ratio of the two speeds, by leaving out one prompt
  // at a time.
  std::optional<double> SpeedupError(const BenchTally& plain) const;

  int64_t prompts_ = 0;
  int64_t rounds_ = 0;
  int64_t nodes_ = 0;
  double emitted_ = 0;
  std::vector<int64_t> accepted_;  // [j]: verifications that accepted j tokens
  DecodeSpeed speed_;
  std::vector<DecodeSpeed> speeds_;  // [prompts_]
  StageMs stage_ms_;                 // sums
  Repetition repetition_;
  int64_t same_text_ = 0;
};

// Returns true if the speedup may be chance: within two standard errors of 1.
bool IsNoise(const BenchRow& row);

// ToJson: one JSON object. ToTableLine: two lines of the table under
// BenchTableHeader(), of 80 columns if names are short.
std::string ToJson(const BenchRow& row);
std::string ToTableLine(const BenchRow& row);
std::string BenchTableHeader();

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_BENCH_BENCH_ROW_H_
