// A request for text inside the coordinator (token ids, no protobuf), the sink
// of its answer, and its final report.
#ifndef ESPALIER_COORDINATOR_SESSION_REQUEST_H_
#define ESPALIER_COORDINATOR_SESSION_REQUEST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/speculation/logit_adjustments.h"
#include "common/speculation/logprobs.h"
#include "common/speculation/sampling_params.h"
#include "common/speculation/types.h"

namespace espalier::coordinator {

// The server chooses the values of unset fields.
struct SpeculationOptions {
  bool enabled = true;
  std::optional<int64_t>
      max_nodes;  // tree nodes per verification, root excluded
  std::optional<int64_t> max_depth;   // 0, as max_nodes 0, turns it off
  std::vector<std::string> drafters;  // empty: all
  std::string strategy = "auto";      // name of a merge policy
  std::string rule = "auto";          // name of a verification rule
};

// The text of one output, token by token, and the stop string that ends it.
// Used on the coordinator's executor.
class OutputText {
 public:
  virtual ~OutputText() = default;
  // The text that is certain after `token`. REQUIRES: no stop string is found.
  virtual std::string Push(TokenId token) = 0;
  // Ends the text: what was held back.
  virtual std::string Flush() = 0;
  // The stop string that the text contains with the last token.
  virtual const std::optional<std::string>& stop_string() const = 0;
};
using NewOutputText = std::function<std::unique_ptr<OutputText>()>;

inline constexpr int64_t kMaxOutputs = 32;

// The strategy of plain decoding in answers and metrics.
inline constexpr char kNoStrategy[] = "none";

// Holds what an earlier call has returned of an output.
struct ResumedOutput {
  std::vector<TokenId> tokens = {};
  bool finished = false;  // nothing is left to be done
};

// A request without its prompt, as long as that is not tokenized: it cannot be
// started.
struct RequestParams {
  std::string request_id = {};  // unique among live requests
  SamplingParams sampling = {};
  // Without prompt_length and early_stops, which the plan fills in.
  LogitAdjustments adjustments = {};
  std::optional<int64_t> max_tokens = {};  // cut to the context
  std::vector<TokenId> stop_token_ids = {};
  bool ignore_eos = false;
  std::string cache_salt = {};  // see SequenceUpdate
  std::string tenant = {};      // whose caches it uses; empty: those of all
  int64_t priority = 0;         // see VerifyRequest
  LogprobRequest logprobs = {};
  NewOutputText new_text = {};  // null: no text is wanted, nor stop strings
  int64_t num_outputs = 1;      // output i has the seed sampling.seed + i
  // Empty, or one for each output. A finished one is not run, and the sink
  // learns nothing of it.
  std::vector<ResumedOutput> resumed = {};
  // Origin of the answer that is resumed (OutputPiece::origin); nullopt: not
  // known.
  std::optional<uint64_t> resumed_origin = {};
  SpeculationOptions speculation = {};
  std::string traceparent = {};  // of the client (trace_context.h); or empty
  absl::Time deadline = absl::InfiniteFuture();

  bool Runs(int64_t output) const {
    return resumed.empty() || !resumed[static_cast<size_t>(output)].finished;
  }
  int64_t num_running_outputs() const {
    int64_t count = 0;
    for (int64_t i = 0; i < num_outputs; ++i) count += Runs(i);
    return count;
  }
};

struct GenerationRequest : RequestParams {
  std::vector<TokenId> prompt = {};
  std::string prompt_field = "prompt";  // field of the API, for errors
};

enum class FinishReason {
  kUnspecified,
  kStop,  // the last token ends the sequence, or completes a stop string
  kLength,
  kCancelled,
  kDeadline,
  kError,
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;  // those of resumed calls among them
  int64_t cached_tokens = 0;      // of the prompt: their K/V was not computed
};

struct DrafterShare {
  std::string name;
  int64_t proposed = 0;           // verified nodes that it proposed
  int64_t accepted = 0;           // of these, in the text
  int64_t uniquely_accepted = 0;  // of these, proposed by no other drafter
  int64_t timeouts = 0;           // rounds that waited without an answer
  int64_t errors = 0;             // malformed trees and failed calls
};

struct SpecStats {
  int64_t num_spec_steps = 0;    // verifications
  int64_t num_draft_tokens = 0;  // verified nodes, root excluded
  int64_t num_accepted_draft_tokens = 0;
  int64_t num_emitted = 0;
  int64_t degraded_steps = 0;  // no tree although speculation was requested
  int64_t near_ties = 0;
  std::vector<int64_t> acceptance_histogram;  // [j]: steps that accepted j
  std::vector<DrafterShare> drafters;         // as chosen by the request
  std::string strategy;                       // or kNoStrategy
  std::string rule;                           // as applied by the verifier
  int64_t plain_steps = 0;  // no drafter was asked, as none would have paid
  // Time that speculation won, compared with plain decoding; below 0: lost.
  absl::Duration balance;
  absl::Duration plain_round;  // what plain decoding takes; zero: not known

  // tau: emitted tokens per verification, bonus tokens included.
  double mean_acceptance_length() const {
    return num_spec_steps == 0
               ? 0.0
               : static_cast<double>(num_emitted) / num_spec_steps;
  }
  double draft_acceptance_rate() const {
    return num_draft_tokens == 0
               ? 0.0
               : static_cast<double>(num_accepted_draft_tokens) /
                     num_draft_tokens;
  }
};

// Sums over the steps of a request, except the first two.
struct Timing {
  absl::Duration queue;
  absl::Duration time_to_first_token;  // queue included
  absl::Duration draft_wait;
  absl::Duration merge;
  absl::Duration verify;  // inside the verifier
  absl::Duration wire;    // round trips to the verifier, minus `verify`
  absl::Duration total;
};

// Says what became of one output.
struct GenerationReport {
  int64_t output = 0;  // 0 .. num_outputs - 1
  FinishReason finish_reason = FinishReason::kUnspecified;
  // One of them, with kStop.
  std::optional<TokenId> matched_stop_token = {};
  std::optional<std::string> matched_stop_string = {};
  Usage usage = {};
  SpecStats spec = {};
  Timing timing = {};
  // Parts of the request that were not followed.
  std::vector<std::string> warnings = {};
  std::string last_text = {};  // what was held back until the end
};

struct StepInfo {
  int64_t step = 0;  // from 1
  int64_t num_draft_tokens = 0;
  int64_t num_accepted_tokens = 0;
};

// Holds what one round adds to an output. Valid during the call that gets it.
struct OutputPiece {
  int64_t output = 0;                // 0 .. num_outputs - 1
  absl::Span<const TokenId> tokens;  // at least one
  absl::string_view text = {};       // that is certain with them
  StepInfo step = {};
  LogprobRows logprobs = {};  // as requested, of `tokens`
  int64_t cached_tokens = 0;  // as Usage has them
  // A hash of the prompt's tokens and of what the target computes: equal for
  // two calls of a request whose texts are the same.
  uint64_t origin = 0;
  // In the first piece of output 0.
  absl::Span<const TokenId> prompt = {};
  LogprobRows prompt_logprobs = {};  // as requested, of its second token on
};

// Receives the answer: all outputs of a request. Called on the coordinator's
// executor; must not block.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // In the order of the text.
  virtual void OnTokens(const OutputPiece& piece) = 0;
  // Called exactly once for each output, after its pieces. OK for kStop and
  // kLength only; see request_errors.h for the contents of an error. An error
  // of one output ends the others as CANCELLED.
  virtual void OnFinish(const absl::Status& status,
                        const GenerationReport& report) = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_SESSION_REQUEST_H_
