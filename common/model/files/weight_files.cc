#include "common/model/files/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/model/files/gguf_config.h"
#include "common/model/files/gguf_path.h"
#include "common/model/files/gguf_weights.h"
#include "common/model/files/json_file.h"
#include "common/model/files/random_weights.h"

namespace espalier {
namespace {

using Json = nlohmann::json;

// Shard file names in the index, without repetition.
absl::StatusOr<std::set<std::string>> ShardNames(const Json& index,
                                                 const std::string& path) {
  if (!index.contains("weight_map") || !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has no weight_map"));
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    // A plain file name: an index must not reach out of its folder.
    if (!file.is_string() || file.get_ref<const std::string&>().empty() ||
        file.get_ref<const std::string&>().find('/') != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": weight_map of tensor ", tensor, " is not a file name"));
    }
    names.insert(file.get<std::string>());
  }
  return names;
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
  std::error_code ignored;
  if (gguf.has_value()) {
    RETURN_IF_ERROR(weights.AddGguf(*gguf));
  } else if (std::filesystem::exists(index, ignored)) {
    RETURN_IF_ERROR(weights.AddShards(index));
  } else {
    ASSIGN_OR_RETURN(SafetensorsFile file,
                     SafetensorsFile::Open(path + "/model.safetensors"));
    RETURN_IF_ERROR(weights.Add(std::move(file)));
  }
  return weights;
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
  ASSIGN_OR_RETURN(const auto names, ShardNames(index, index_path));
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(SafetensorsFile file,
                     SafetensorsFile::Open(absl::StrCat(path_, "/", name)));
    for (const auto& [tensor, shard] : index["weight_map"].items()) {
      if (shard == name && !file.tensors().contains(tensor)) {
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
