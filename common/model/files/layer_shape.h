#ifndef ESPALIER_COMMON_MODEL_FILES_LAYER_SHAPE_H_
#define ESPALIER_COMMON_MODEL_FILES_LAYER_SHAPE_H_

#include <cstdint>

namespace espalier {

enum class Activation { kSilu, kGelu, kGeluTanh };

// Norms of queries and keys, before they are rotated.
enum class HeadNorm {
  kNone,
  kEachHead,  // a weight of [head_dim], the same for all heads
  kAllHeads,  // one root mean square over the heads of a row, OLMo 2's
};

// The feed-forward part of a layer as a mixture of experts, each a gated MLP. A
// row goes through the experts with the largest router logits (equal ones: the
// lower number), and their outputs are added in that order, weighted by the
// softmax of the logits of all experts.
struct ExpertsShape {
  int64_t count = 0;               // of experts; 0: the layer is dense
  int64_t per_row = 0;             // 1 .. count
  int64_t ffn_size = 0;            // of each expert
  bool weights_sum_to_one = true;  // divided by the sum of the chosen ones

  friend bool operator==(const ExpertsShape&, const ExpertsShape&) = default;
};

// One layer of a decoder, as data: back ends read it and branch on nothing
// else, so an architecture that consists of these needs no code in them.
// Its tensors have the names of tensor_names.h.
struct LayerShape {
  // A row sees so many positions, its own among them; 0: all.
  int64_t window = 0;
  // Rows of a block that see each other see those up to themselves here.
  bool sees_back_only = false;
  // The table in ModelConfig::rotary that queries and keys are rotated by.
  int32_t rotary = 0;
  // Scores are divided by the root of it; 0: by that of head_dim.
  double query_scalar = 0;
  double score_softcap = 0;  // scores s become c tanh(s / c); 0: they stay
  HeadNorm head_norm = HeadNorm::kNone;
  bool norms_before = true;     // of the inputs of attention and feed-forward
  bool norms_after = false;     // of their outputs, before these are added
  bool attention_bias = false;  // q, k, v have a bias
  bool attention_out_bias = false;  // o has a bias
  bool mlp_bias = false;            // gate, up, down have a bias
  Activation activation = Activation::kSilu;
  int64_t ffn_size = 0;  // of a dense layer
  ExpertsShape experts = {};

  bool rotates() const { return rotary != kNoRotation; }
  bool is_dense() const { return experts.count == 0; }

  static constexpr int32_t kNoRotation = -1;

  friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_LAYER_SHAPE_H_
