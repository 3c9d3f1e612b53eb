#ifndef ESPALIER_COORDINATOR_CLI_TEXT_TEMPLATE_FLAGS_H_
#define ESPALIER_COORDINATOR_CLI_TEXT_TEMPLATE_FLAGS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/cli/flags/flag_set.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::cli {

// Reads what the model's chat template gets beside messages.
class TemplateFlags {
 public:
  void AddTo(FlagSet& flags);

  bool given() const { return template_args_ || tools_; }
  // INVALID_ARGUMENT: text that is not UTF-8.
  absl::Status Set(v1::Chat& chat) const;

 private:
  std::optional<std::string> template_args_;
  std::optional<std::string> tools_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_TEXT_TEMPLATE_FLAGS_H_
