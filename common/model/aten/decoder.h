// Internal to common/model: includes ATen.
#ifndef ESPALIER_COMMON_MODEL_ATEN_DECODER_H_
#define ESPALIER_COMMON_MODEL_ATEN_DECODER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/aten/kv_cache.h"
#include "common/model/aten/weight_loader.h"
#include "common/model/files/model_config.h"
#include "common/model/native/row_batch.h"
#include "common/model/native/tapped_rows.h"

namespace espalier {

// One sequence's part of a pass.
struct PassSequence {
  int64_t first_row = 0;
  RowTree tree;
  KvCache* cache = nullptr;  // with room for the rows
  // ops::TreeBias by window; empty where rows attend exactly.
  std::map<int64_t, at::Tensor> biases;
  TappedRows* tapped = nullptr;  // takes hidden states of its rows
};

// The rows of all sequences of a pass, packed.
struct Pass {
  at::Tensor tokens;     // [rows] int64
  at::Tensor positions;  // [rows] int64
  std::vector<PassSequence> sequences;

  // Writes the K/V of one layer to the caches and attends. q: [rows, heads,
  // head_dim], scaled; k, v: [rows, kv_heads, head_dim] -> [rows, heads *
  // head_dim].
  at::Tensor Attend(int64_t layer, const LayerShape& shape, const at::Tensor& q,
                    const at::Tensor& k, const at::Tensor& v) const;

  // Gives the hidden states at one point to the sequences that want them.
  // x: [rows, hidden] float32.
  void Tap(int32_t point, const at::Tensor& x) const;
};

// The weights of one architecture and the pass through them. Constant.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Final hidden states, after the last norm: [rows, hidden] float32. Taps the
  // points before that norm.
  virtual at::Tensor Run(const Pass& pass) const = 0;

  // [rows, hidden] -> [rows, vocab] float32
  virtual at::Tensor Logits(const at::Tensor& hidden) const = 0;
};

// NOT_FOUND, INVALID_ARGUMENT: a tensor is missing or has another shape.
absl::StatusOr<std::unique_ptr<Decoder>> LoadLlama(const ModelConfig& config,
                                                   WeightLoader& weights);
absl::StatusOr<std::unique_ptr<Decoder>> LoadGpt2(const ModelConfig& config,
                                                  WeightLoader& weights);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_ATEN_DECODER_H_
