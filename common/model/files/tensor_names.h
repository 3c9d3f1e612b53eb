#ifndef ESPALIER_COMMON_MODEL_FILES_TENSOR_NAMES_H_
#define ESPALIER_COMMON_MODEL_FILES_TENSOR_NAMES_H_

#include "common/model/files/layer_shape.h"

namespace espalier {

// The tensors of a decoder of kind kLlama, whatever file they come from. They
// are called as Llama's folders call them, and what Llama lacks as here:
//
//   model.embed_tokens.weight [vocab, hidden], model.norm.weight [hidden],
//   lm_head.weight [vocab, hidden] unless the head is tied; and for each layer,
//   after "model.layers.<layer>.":
//   input_layernorm.weight            [hidden] before attention
//   self_attn.{q,k,v,o}_proj.weight   and .bias
//   self_attn.{q,k}_norm.weight       [head_dim], or [heads * head_dim]
//   attention_output_norm.weight      [hidden] after attention
//   post_attention_layernorm.weight   [hidden] before feed-forward
//   mlp.{gate,up,down}_proj.weight    and .bias
//   mlp.gate.weight                   [experts, hidden] the router
//   mlp.experts.<expert>.{gate,up,down}_proj.weight
//   ffn_output_norm.weight            [hidden] after feed-forward
//
// A norm's weight is what the normalized row is multiplied by.

// How a file calls a tensor of a layer.
struct TensorName {
  const char* file;  // after the prefix of the layer
  // After "model.layers.<layer>."; "*" stands for the number of an expert, and
  // the file has the experts' tensors as one, whose first dimension counts
  // them.
  const char* name;
  // Returns true if such a layer has it; null: every layer does.
  bool (*part_of)(const LayerShape& layer) = nullptr;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_TENSOR_NAMES_H_
