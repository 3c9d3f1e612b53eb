#ifndef ESPALIER_COORDINATOR_CLI_TEXT_STRUCTURED_FLAGS_H_
#define ESPALIER_COORDINATOR_CLI_TEXT_STRUCTURED_FLAGS_H_

#include <iosfwd>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/config/flag_set.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::cli {

// The flags of GenerateRequest.structured_output.
class StructuredFlags {
 public:
  void AddTo(FlagSet& flags);

  // Sets the field if one of the flags was given. Reads the files that they
  // name, or `in` for "-". INVALID_ARGUMENT: more than one, or a text that is
  // not UTF-8.
  absl::Status Set(std::istream& in, v1::GenerateRequest& request) const;

 private:
  bool json_object_ = false;
  std::optional<std::string> json_schema_;
  std::optional<std::string> regex_;
  Repeated choice_;
  std::optional<std::string> grammar_;
  std::optional<std::string> structural_tag_;
  bool compact_ = false;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_TEXT_STRUCTURED_FLAGS_H_
