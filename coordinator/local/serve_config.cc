#include "coordinator/local/serve_config.h"

#include <filesystem>
#include <string>

#include "common/base/status_macros.h"
#include "common/config/load_config.h"

namespace espalier::local {
namespace {

void AddDefaultDrafters(v1::ServeConfig& config) {
  v1::DrafterEngineConfig& lookup = *config.add_drafters();
  lookup.set_name("lookup");
  lookup.set_type("prompt_lookup");
  const std::string table = config.verifier().model() + "/bigram.ngram";
  if (!std::filesystem::exists(table)) return;
  v1::DrafterEngineConfig& bigram = *config.add_drafters();
  bigram.set_name("bigram");
  bigram.set_type("ngram");
  (*bigram.mutable_options())["table"] = table;
}

}  // namespace

absl::StatusOr<v1::ServeConfig> LoadServeConfig(
    const cli::LocalClusterOptions& options, const cli::Places& places) {
  v1::ServeConfig config;
  RETURN_IF_ERROR(LoadConfig(options.config_file, options.overrides, config));
  if (config.server().listen().empty()) {
    config.mutable_server()->add_listen(places.address);
  }
  if (config.verifier().model().empty()) {
    config.mutable_verifier()->set_model(places.model.string());
  }
  if (config.drafters().empty()) AddDefaultDrafters(config);
  for (v1::DrafterEngineConfig& drafter : *config.mutable_drafters()) {
    if (drafter.model().empty()) drafter.set_model(config.verifier().model());
  }
  return config;
}

}  // namespace espalier::local
