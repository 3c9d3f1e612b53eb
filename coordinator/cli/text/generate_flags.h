#ifndef ESPALIER_COORDINATOR_CLI_TEXT_GENERATE_FLAGS_H_
#define ESPALIER_COORDINATOR_CLI_TEXT_GENERATE_FLAGS_H_

#include <cstdint>
#include <iosfwd>
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
  const v1::GenerateRequest& request() const { return request_; }

 private:
  void AddInputTo(FlagSet& flags);
  void AddSamplingTo(FlagSet& flags);
  void AddAdjustmentsTo(FlagSet& flags);
  void AddOutputTo(FlagSet& flags);
  void AddSpeculationTo(FlagSet& flags);
  void AddServingTo(FlagSet& flags);

  absl::Status SetInput(std::istream& in, v1::GenerateRequest& request) const;

  // Has what other flags than those of the input and of structured output have
  // set.
  v1::GenerateRequest request_;
  std::optional<std::string> prompt_;
  std::optional<std::string> chat_;
  std::optional<std::string> prompt_file_;
  std::optional<std::vector<uint32_t>> token_ids_;
  TemplateFlags template_;

  StructuredFlags structured_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_TEXT_GENERATE_FLAGS_H_
