#include "common/model/files/weight_files.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/model/files/architectures/architecture.h"
#include "common/model/files/gguf_config.h"
#include "common/model/files/gguf_path.h"
#include "common/model/files/gguf_weights.h"
#include "common/model/files/json_file.h"
#include "common/model/files/random_weights.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Returns the tensors that the index says are in each shard, by its file name.
absl::StatusOr<std::map<std::string, std::vector<std::string>>> Shards(
    const Json& index, const std::string& path) {
  if (!index.contains("weight_map") || !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has no weight_map"));
  }
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    // A plain file name: an index must not reach out of its folder.
    if (!file.is_string() || file.get_ref<const std::string&>().empty() ||
        file.get_ref<const std::string&>().find('/') != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": weight_map of tensor ", tensor, " is not a file name"));
    }
    shards[file.get<std::string>()].push_back(tensor);
  }
  return shards;
}

// Why the folder has no model.safetensors, and what to do.
absl::Status NoSafetensors(const fs::path& folder) {
  std::error_code none_there;
  bool has_pickles = false;
  for (const auto& entry : fs::directory_iterator(folder, none_there)) {
    const std::string name = entry.path().filename().string();
    has_pickles |=
        absl::StartsWith(name, "pytorch_model") && absl::EndsWith(name, ".bin");
  }
  const std::string missing =
      absl::StrCat(folder.string(), " has no model.safetensors");
  if (!has_pickles) {
    return absl::NotFoundError(absl::StrCat(
        missing,
        " and no model.safetensors.index.json: download the model's "
        "*.safetensors files into it, or name a .gguf file"));
  }
  const std::string path = folder.string();
  return absl::NotFoundError(absl::StrCat(
      missing,
      ", only pytorch_model*.bin, a Python format that is not read. "
      "Convert it once, with torch and safetensors from pip:\n",
      "  python3 -c \"import glob, torch, safetensors.torch as s; t = {}; "
      "[t.update(torch.load(f, map_location='cpu', weights_only=True)) for f "
      "in glob.glob('",
      path,
      "/pytorch_model*.bin')]; "
      "s.save_file({k: v.clone().contiguous() for k, v in t.items()}, '",
      path, "/model.safetensors')\""));
}

// Returns the row of the table that config.json names; null: none, as of a
// draft head.
const Architecture* ArchitectureOfFolder(const std::string& folder) {
  const absl::StatusOr<Json> json = ReadJsonObject(folder + "/config.json");
  if (!json.ok()) return nullptr;
  const auto found = json->find("architectures");
  if (found == json->end() || !found->is_array() || found->size() != 1 ||
      !(*found)[0].is_string()) {
    return nullptr;
  }
  return FindFolderArchitecture((*found)[0].get_ref<const std::string&>());
}

// Returns "model.layers.3.<canonical>" for "model.layers.3.<of the folder>".
std::string NameInModel(const std::string& name,
                        absl::Span<const TensorName> tensors) {
  constexpr absl::string_view kLayers = "model.layers.";
  if (!absl::StartsWith(name, kLayers)) return name;
  const size_t dot = name.find('.', kLayers.size());
  if (dot == std::string::npos) return name;
  for (const TensorName& tensor : tensors) {
    if (name.compare(dot + 1, std::string::npos, tensor.file) == 0) {
      return absl::StrCat(name.substr(0, dot + 1), tensor.name);
    }
  }
  return name;
}

}  // namespace

absl::StatusOr<WeightFiles> WeightFiles::Open(
    const std::string& path, std::optional<uint64_t> random_seed) {
  WeightFiles weights(path);
  if (random_seed.has_value()) {
    ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(path));
    ASSIGN_OR_RETURN(const std::vector<TensorShape> shapes,
                     ModelShapes(config));
    weights.AddRandom(shapes, *random_seed);
    return weights;
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> gguf, GgufPathOf(path));
  const std::string index = path + "/model.safetensors.index.json";
  const std::string whole = path + "/model.safetensors";
  std::error_code ignored;
  if (gguf.has_value()) {
    RETURN_IF_ERROR(weights.AddGguf(*gguf));
  } else if (fs::exists(index, ignored)) {
    RETURN_IF_ERROR(weights.AddShards(index));
  } else if (!fs::exists(whole, ignored)) {
    return NoSafetensors(path);
  } else {
    ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(whole));
    RETURN_IF_ERROR(weights.Add(std::move(file)));
  }
  if (!gguf.has_value()) RETURN_IF_ERROR(weights.AdoptFolderNames());
  return weights;
}

absl::Status WeightFiles::AdoptFolderNames() {
  const Architecture* const architecture = ArchitectureOfFolder(path_);
  if (architecture == nullptr) return absl::OkStatus();
  std::map<std::string, TensorView> renamed;
  for (auto& [name, view] : tensors_) {
    if (architecture->folder_norms_less_one && view.shape.size() == 1 &&
        absl::EndsWith(name, "norm.weight")) {
      view.offset = 1;
    }
    renamed.emplace(NameInModel(name, architecture->folder_tensors),
                    std::move(view));
  }
  if (renamed.size() < tensors_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": two tensors have one meaning"));
  }
  tensors_ = std::move(renamed);
  return absl::OkStatus();
}

WeightFiles WeightFiles::MakeUp(absl::Span<const TensorShape> shapes,
                                uint64_t seed) {
  WeightFiles weights("random weights");
  weights.AddRandom(shapes, seed);
  return weights;
}

void WeightFiles::AddRandom(absl::Span<const TensorShape> shapes,
                            uint64_t seed) {
  int64_t longest = 0;  // of the vectors
  for (const TensorShape& tensor : shapes) {
    if (tensor.shape.size() == 1) longest = std::max(longest, tensor.shape[0]);
  }
  ones_.assign(longest, 1.0f);
  tensors_ = RandomWeights(shapes, seed, ones_);
}

absl::Status WeightFiles::AddGguf(const std::string& path) {
  ASSIGN_OR_RETURN(gguf_, GgufFile::Open(path));
  ASSIGN_OR_RETURN(const ModelConfig config, ReadGgufConfig(*gguf_));
  ASSIGN_OR_RETURN(tensors_, ReadGgufWeights(*gguf_, config));
  return absl::OkStatus();
}

absl::Status WeightFiles::AddShards(const std::string& index_path) {
  ASSIGN_OR_RETURN(const Json index, ReadJsonObject(index_path));
  ASSIGN_OR_RETURN(const auto shards, Shards(index, index_path));
  for (const auto& [name, tensors] : shards) {
    ASSIGN_OR_RETURN(SafetensorsFile file,
                     SafetensorsFile::Open(absl::StrCat(path_, "/", name)));
    for (const std::string& tensor : tensors) {
      if (!file.tensors().contains(tensor)) {
        return absl::NotFoundError(absl::StrCat(path_, "/", name,
                                                " has no tensor ", tensor, " (",
                                                index_path, " says so)"));
      }
    }
    RETURN_IF_ERROR(Add(std::move(file)));
  }
  return absl::OkStatus();
}

absl::Status WeightFiles::Add(SafetensorsFile file) {
  files_.push_back(std::move(file));
  for (const auto& [name, view] : files_.back().tensors()) {
    if (!tensors_.emplace(name, view).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": tensor ", name, " is in two files"));
    }
  }
  return absl::OkStatus();
}

void WeightFiles::CutRows(const std::string& name, int64_t rows, int64_t kept) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return;
  TensorView& view = found->second;
  if (view.shape.empty() || view.shape[0] != rows || rows == 0) return;
  view.data = view.data.first(view.data.size() / rows * kept);
  view.shape[0] = kept;
}

absl::StatusOr<TensorView> WeightFiles::Find(const std::string& name) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    return absl::NotFoundError(
        absl::StrCat("the weights in ", path_, " have no tensor ", name));
  }
  return found->second;
}

absl::StatusOr<TensorView> WeightFiles::Find(
    const std::string& name, const std::vector<int64_t>& shape) const {
  ASSIGN_OR_RETURN(TensorView view, Find(name));
  if (view.shape != shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": tensor ", name, " has shape [",
        absl::StrJoin(view.shape, ", "), "], the configuration wants [",
        absl::StrJoin(shape, ", "), "]"));
  }
  return view;
}

}  // namespace espalier
