#ifndef ESPALIER_COMMON_MODEL_FILES_WEIGHT_FILES_H_
#define ESPALIER_COMMON_MODEL_FILES_WEIGHT_FILES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/files/gguf_file.h"
#include "common/model/files/random_weights.h"
#include "common/model/files/safetensors.h"
#include "common/model/files/tensor_view.h"

namespace espalier {

// The weights of a model or of a draft head, by the names in tensor_names.h or,
// of GPT-2 and of heads, those that a Hugging Face folder gives them:
// model.safetensors, the shards that model.safetensors.index.json lists, or a
// GGUF file (see GgufPathOf). Constant after Open.
class WeightFiles {
 public:
  // random_seed: instead of reading weights, make them up for the configuration
  // at `path` (random_weights.h).
  // NOT_FOUND: no such file, or a listed shard or tensor is missing.
  // INVALID_ARGUMENT, UNIMPLEMENTED: the files are malformed, or not of a kind
  // that is known; the message names file and tensor.
  static absl::StatusOr<WeightFiles> Open(
      const std::string& path,
      std::optional<uint64_t> random_seed = std::nullopt);

  // Random weights of these shapes, and no files.
  static WeightFiles MakeUp(absl::Span<const TensorShape> shapes,
                            uint64_t seed);

  bool Has(const std::string& name) const { return tensors_.contains(name); }
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }

  // Leaves tensor `name` its first `kept` rows, if it is there and has `rows`:
  // of an embedding, those of the first tokens. REQUIRES: kept <= rows.
  void CutRows(const std::string& name, int64_t rows, int64_t kept);

  // NOT_FOUND names the path and the tensor.
  absl::StatusOr<TensorView> Find(const std::string& name) const;

  // Finds a tensor of exactly this shape. INVALID_ARGUMENT: it has another.
  absl::StatusOr<TensorView> Find(const std::string& name,
                                  const std::vector<int64_t>& shape) const;

 private:
  explicit WeightFiles(std::string path) : path_(std::move(path)) {}

  void AddRandom(absl::Span<const TensorShape> shapes, uint64_t seed);
  absl::Status AddGguf(const std::string& path);
  absl::Status AddShards(const std::string& index_path);
  absl::Status Add(SafetensorsFile file);
  // Calls the tensors of a model's folder as tensor_names.h does.
  absl::Status AdoptFolderNames();

  std::string path_;
  std::optional<GgufFile> gguf_;
  std::vector<SafetensorsFile> files_;
  std::vector<float> ones_;                    // of random weights
  std::map<std::string, TensorView> tensors_;  // views into these
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_WEIGHT_FILES_H_
