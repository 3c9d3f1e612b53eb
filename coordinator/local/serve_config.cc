#include "coordinator/local/serve_config.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "common/base/status_macros.h"
#include "common/config/load_config.h"
#include "common/grammar/grammar.h"
#include "common/model/files/json_file.h"
#include "common/model/files/model_identity.h"
#include "verifier/node/node_engines.h"

namespace espalier::local {
namespace {

namespace fs = std::filesystem;

// Returns the drafter type for the architecture that a drafter's folder names.
absl::StatusOr<std::string> TypeOf(const fs::path& folder) {
  ASSIGN_OR_RETURN(const nlohmann::json config,
                   ReadJsonObject(folder / "config.json"));
  const nlohmann::json names =
      config.value("architectures", nlohmann::json::array());
  const bool block =
      std::find(names.begin(), names.end(), "DFlashDraftModel") != names.end();
  return block ? "dflash" : "eagle";
}

// Returns where the drafters of a model are: in its folder, or beside its file.
fs::path DraftersOf(const fs::path& model) {
  std::error_code none_there;
  const bool is_folder = fs::is_directory(model, none_there);
  return (is_folder ? model : model.parent_path()) / "drafters";
}

// Returns whether outputs of the model can follow grammars, which end with an
// end-of-sequence token.
bool FollowsGrammars(const std::string& model) {
  if (!grammar::HasBackend()) return false;
  const absl::StatusOr<TargetIdentity> target = IdentifyTarget(model, "");
  return target.ok() && !target->end_tokens.empty();
}

v1::DrafterEngineConfig& AddDrafter(const std::string& name,
                                    const std::string& type,
                                    v1::ServeConfig& config) {
  v1::DrafterEngineConfig& drafter = *config.add_drafters();
  drafter.set_name(name);
  drafter.set_type(type);
  return drafter;
}

// Adds prompt lookup, the drafter of what grammars force, and the drafters in
// the model's folder. A model without these gets drafters that learn from
// earlier answers and from the target's rows. All clients of this server are
// the user that started it, so their answers may be kept.
absl::Status AddDefaultDrafters(v1::ServeConfig& config) {
  AddDrafter("lookup", "prompt_lookup", config);
  if (FollowsGrammars(config.verifier().model())) {
    AddDrafter("grammar", "grammar", config);
  }
  std::error_code none_there;
  std::set<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(
           DraftersOf(config.verifier().model()), none_there)) {
    if (entry.is_directory()) folders.insert(entry.path());
  }
  for (const fs::path& folder : folders) {
    ASSIGN_OR_RETURN(const std::string type, TypeOf(folder));
    v1::DrafterEngineConfig& drafter =
        AddDrafter(folder.filename().string(), type, config);
    (*drafter.mutable_options())["model"] = folder.string();
  }
  if (folders.empty()) {
    v1::DrafterEngineConfig& suffix = AddDrafter("suffix", "suffix", config);
    (*suffix.mutable_options())["earlier_answers"] = "true";
    AddDrafter("recycle", "recycle", config);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::ServeConfig> LoadServeConfig(
    const cli::LocalClusterOptions& options, const cli::Places& places) {
  v1::ServeConfig config;
  RETURN_IF_ERROR(LoadConfig(options.config_file, options.overrides, config));
  if (config.server().listen().empty()) {
    config.mutable_server()->add_listen(places.address);
    if (config.admin_listen().empty()) {
      config.add_admin_listen(places.admin_address);
    }
  }
  if (config.verifier().model().empty()) {
    config.mutable_verifier()->set_model(places.model.string());
  }
  if (config.drafters().empty()) RETURN_IF_ERROR(AddDefaultDrafters(config));
  for (v1::DrafterEngineConfig& drafter : *config.mutable_drafters()) {
    node::PlaceBeside(config.verifier(), drafter);
  }
  return config;
}

}  // namespace espalier::local
