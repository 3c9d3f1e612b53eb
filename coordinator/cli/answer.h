#ifndef ESPALIER_COORDINATOR_CLI_ANSWER_H_
#define ESPALIER_COORDINATOR_CLI_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "espalier/v1/inference.pb.h"

namespace espalier::cli {

// What one Generate call said.
struct Answer {
  std::vector<uint32_t> token_ids;
  std::string text;
  int64_t first_message_tokens = 0;
  v1::GenerateSummary summary;
};

// Decoding without the prefill: what came behind the first message, and how
// long that took. The first message may hold several tokens, so counting all
// but the first token would flatter speculation.
struct DecodeSpeed {
  int64_t tokens = 0;
  double ms = 0;

  void Add(const DecodeSpeed& other);
  // Unset if nothing was decoded behind the first message.
  std::optional<double> TokensPerSecond() const;
};
DecodeSpeed DecodeSpeedOf(const Answer& answer);

// The contract of `espalier generate --json`: one line.
std::string ToJson(const Answer& answer);

// One line for people: tau, tokens/s, shares of the drafters.
std::string ToLine(const Answer& answer);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_ANSWER_H_
