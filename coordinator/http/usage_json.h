#ifndef ESPALIER_COORDINATOR_HTTP_USAGE_JSON_H_
#define ESPALIER_COORDINATOR_HTTP_USAGE_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/http/json_read.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// Adds up what the outputs of one HTTP request have cost.
class UsageSum {
 public:
  // `warnings`: of the HTTP request.
  explicit UsageSum(std::vector<std::string> warnings)
      : warnings_(std::move(warnings)) {}

  // Adds an output. The prompt counts once for each call, with its output 0.
  void Add(const v1::GenerateResponse& last);

  // OpenAI's `usage`: accepted and rejected predictions are nodes of trees.
  Json OpenAiUsage() const;
  // The object `espalier`: tau, rounds, drafters by share, timings.
  Json Espalier() const;

  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t cached_tokens() const { return cached_tokens_; }
  int64_t completion_tokens() const { return completion_tokens_; }

 private:
  void AddStats(const v1::SpecStats& stats);
  Json Drafters() const;

  int64_t prompt_tokens_ = 0;
  int64_t cached_tokens_ = 0;
  int64_t completion_tokens_ = 0;
  int64_t emitted_ = 0;
  bool has_stats_ = true;  // false: the client is not told
  v1::SpecStats stats_;
  v1::Timing timing_;  // of the output that took the longest
  std::vector<uint64_t> seeds_;
  std::vector<std::string> warnings_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_USAGE_JSON_H_
