#ifndef ESPALIER_COORDINATOR_CLI_ANSWER_H_
#define ESPALIER_COORDINATOR_CLI_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "espalier/v1/inference.pb.h"

namespace espalier::cli {

// One output of a Generate call.
struct Answer {
  std::string request_id;  // the server's, if the client chose none
  uint32_t index = 0;      // of the output
  std::vector<uint32_t> token_ids;
  std::string text;
  // Tokens of the first message of the call that returned the summary; all its
  // statistics are of that call.
  int64_t first_message_tokens = 0;
  int64_t resumed_tokens = 0;  // of the calls before it
  int resumptions = 0;         // calls before it
  // Another call needs it to go on; unset before the first tokens.
  std::optional<uint64_t> seed;
  std::optional<uint64_t> origin;
  std::vector<v1::PositionLogprobs> logprobs;  // if requested
  std::optional<v1::ReturnedPrompt> prompt;    // if requested; of output 0
  v1::GenerateSummary summary;
};

// Decoding speed without the prefill: the tokens after the first message, and
// their time. The first message may hold several tokens, so counting all but
// the first token would flatter speculation.
struct DecodeSpeed {
  int64_t tokens = 0;
  double ms = 0;

  void Add(const DecodeSpeed& other);
  // Unset if there were no tokens after the first message.
  std::optional<double> TokensPerSecond() const;
};
DecodeSpeed DecodeSpeedOf(const Answer& answer);

// The output format of `espalier generate --json`: one line.
std::string ToJson(const Answer& answer);

// Parts of the request that were not followed, one line each.
std::vector<std::string> WarningsOf(const Answer& answer);

// One human-readable line: tau, tokens/s, shares of the drafters.
std::string ToLine(const Answer& answer);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_ANSWER_H_
