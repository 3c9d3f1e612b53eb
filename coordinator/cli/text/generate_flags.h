#ifndef ESPALIER_COORDINATOR_CLI_TEXT_GENERATE_FLAGS_H_
#define ESPALIER_COORDINATOR_CLI_TEXT_GENERATE_FLAGS_H_

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/flag_set.h"
#include "coordinator/cli/text/structured_flags.h"
#include "coordinator/cli/text/template_flags.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::cli {

// The flags of a GenerateRequest. Flags that are not given leave their fields
// unset: the server knows the defaults and the limits.
class GenerateFlags {
 public:
  void AddTo(FlagSet& flags);
  // The flags without those of the input, of what is returned, and of
  // structured output.
  void AddDecodingTo(FlagSet& flags);

  // Reads the files that flags name, or `in` for "-". INVALID_ARGUMENT: not
  // exactly one input, text that is not UTF-8, or something for the chat
  // template without --chat.
  absl::StatusOr<v1::GenerateRequest> ToRequest(std::istream& in) const;
  // A request without an input.
  v1::GenerateRequest ToDecoding() const;

 private:
  void AddInputTo(FlagSet& flags);
  void AddSamplingTo(FlagSet& flags);
  void AddAdjustmentsTo(FlagSet& flags);
  void AddOutputTo(FlagSet& flags);
  void AddSpeculationTo(FlagSet& flags);
  void AddServingTo(FlagSet& flags);

  absl::Status SetInput(std::istream& in, v1::GenerateRequest& request) const;
  void SetSampling(v1::GenerateRequest& request) const;
  void SetOutput(v1::GenerateRequest& request) const;
  void SetSpeculation(v1::GenerateRequest& request) const;
  void SetServing(v1::GenerateRequest& request) const;

  std::optional<std::string> prompt_;
  std::optional<std::string> chat_;
  std::optional<std::string> prompt_file_;
  std::optional<std::vector<uint32_t>> token_ids_;
  TemplateFlags template_;

  std::optional<uint32_t> max_tokens_;
  std::optional<float> temperature_;
  std::optional<float> top_p_;
  std::optional<uint32_t> top_k_;
  std::optional<uint64_t> seed_;
  std::vector<uint32_t> stop_token_ids_;
  bool ignore_eos_ = false;
  Repeated stop_;
  bool include_stop_ = false;
  std::optional<uint32_t> min_tokens_;
  std::optional<float> min_p_;
  std::optional<float> typical_p_;
  std::optional<float> repetition_penalty_;
  std::optional<float> frequency_penalty_;
  std::optional<float> presence_penalty_;
  std::map<uint32_t, float> logit_bias_;
  Repeated bad_words_;
  std::optional<uint32_t> n_;
  std::optional<uint32_t> logprobs_;
  std::optional<uint32_t> prompt_logprobs_;
  bool echo_ = false;
  StructuredFlags structured_;

  bool no_speculation_ = false;
  std::vector<std::string> drafters_;
  std::optional<std::string> strategy_;
  std::optional<std::string> rule_;
  std::optional<uint32_t> nodes_;

  std::optional<std::string> cache_salt_;
  std::optional<int32_t> priority_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_TEXT_GENERATE_FLAGS_H_
