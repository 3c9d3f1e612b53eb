#include "coordinator/local/serve_config.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "common/base/status_macros.h"
#include "common/config/load_config.h"
#include "common/grammar/grammar.h"
#include "common/model/compute_dtype.h"
#include "common/model/files/json_file.h"
#include "common/model/files/model_config.h"
#include "drafter/drafters.h"

namespace espalier::local {
namespace {

namespace fs = std::filesystem;

// Drafter type for the architecture that a drafter's folder names.
absl::StatusOr<std::string> TypeOf(const fs::path& folder) {
  ASSIGN_OR_RETURN(const nlohmann::json config,
                   ReadJsonObject(folder / "config.json"));
  const nlohmann::json names =
      config.value("architectures", nlohmann::json::array());
  const bool block =
      std::find(names.begin(), names.end(), "DFlashDraftModel") != names.end();
  return block ? "dflash" : "eagle";
}

// Where the drafters of a model are: in its folder, or beside its file.
fs::path DraftersOf(const fs::path& model) {
  std::error_code none_there;
  const bool is_folder = fs::is_directory(model, none_there);
  return (is_folder ? model : model.parent_path()) / "drafters";
}

// Whether grammars can be followed: they end with an end-of-sequence token.
bool FollowsGrammars(const std::string& model) {
  if (!grammar::HasBackend()) return false;
  const absl::StatusOr<ModelConfig> config = ReadModelConfig(model);
  return config.ok() && !config->eos_ids.empty();
}

// Prompt lookup, what grammars force, and the model's own drafters.
absl::Status AddDefaultDrafters(v1::ServeConfig& config) {
  v1::DrafterEngineConfig& lookup = *config.add_drafters();
  lookup.set_name("lookup");
  lookup.set_type("prompt_lookup");
  if (FollowsGrammars(config.verifier().model())) {
    v1::DrafterEngineConfig& forced = *config.add_drafters();
    forced.set_name("grammar");
    forced.set_type("grammar");
  }
  std::error_code none_there;
  std::set<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(
           DraftersOf(config.verifier().model()), none_there)) {
    if (entry.is_directory()) folders.insert(entry.path());
  }
  for (const fs::path& folder : folders) {
    ASSIGN_OR_RETURN(const std::string type, TypeOf(folder));
    v1::DrafterEngineConfig& drafter = *config.add_drafters();
    drafter.set_name(folder.filename().string());
    drafter.set_type(type);
    (*drafter.mutable_options())["model"] = folder.string();
  }
  return absl::OkStatus();
}

// Networks draft on the verifier's device unless their options say where, or
// ask for numbers that are a CPU's.
void PlaceOnDevice(const std::string& device,
                   v1::DrafterEngineConfig& drafter) {
  auto& options = *drafter.mutable_options();
  const auto type = options.find("compute_type");
  if (drafter::RunsOnDevices(drafter.type()) &&
      (type == options.end() || type->second == NameOf(ComputeDType::kFp8))) {
    options.insert({"device", device});
  }
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
    if (drafter.model().empty()) drafter.set_model(config.verifier().model());
    const std::string& device = config.verifier().device();
    if (!device.empty()) PlaceOnDevice(device, drafter);
  }
  return config;
}

}  // namespace espalier::local
