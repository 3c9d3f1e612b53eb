#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/files/architectures/architecture.h"
#include "common/model/files/layer_windows.h"
#include "common/model/files/llama_fields.h"

namespace espalier {
namespace {

// Bounds what a configuration of a few bytes asks for.
constexpr int64_t kMaxExperts = 4096;

void CheckExperts(const ExpertsShape& experts, const char* count,
                  const char* per_row, JsonFields& fields) {
  if (experts.count > kMaxExperts) {
    fields.Fail(count,
                absl::StrCat("must be an integer of 1 .. ", kMaxExperts));
  }
  if (experts.per_row > experts.count) {
    fields.Fail(per_row, absl::StrCat("must be an integer of 1 .. ",
                                      experts.count, ", the experts"));
  }
}

// Every decoder_sparse_step-th layer has experts, but those that
// mlp_only_layers names.
void ReadExpertLayers(JsonFields& fields, ModelConfig& config) {
  // Newer files have the second name.
  const char* count =
      fields.Has("num_experts") ? "num_experts" : "num_local_experts";
  const ExpertsShape experts = {
      .count = fields.Size(count, 128),
      .per_row = fields.Size("num_experts_per_tok", 8),
      .ffn_size = fields.Size("moe_intermediate_size", 768),
      .weights_sum_to_one = fields.Flag("norm_topk_prob", false)};
  CheckExperts(experts, count, "num_experts_per_tok", fields);
  const int64_t step = fields.Size("decoder_sparse_step", 1);
  const std::vector<int32_t> dense = fields.Indices("mlp_only_layers");
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if ((i + 1) % step != 0 ||
        std::find(dense.begin(), dense.end(), i) != dense.end()) {
      continue;
    }
    config.layers[i].experts = experts;
  }
}

// All layers have the window, or none: transformers does not read layer_types.
void ReadMoeWindow(JsonFields& fields, ModelConfig& config) {
  if (!fields.Flag("use_sliding_window", false)) {
    CheckFullAttention(fields);
    return;
  }
  if (fields.Has("layer_types")) {
    fields.Unimplemented("layer_types beside use_sliding_window");
  }
  ReadCommonWindow(fields, config);
}

// Qwen3 with experts in some layers or all.
void ReadQwen3MoeFolder(JsonFields& fields, ModelConfig& config) {
  if (!fields.Has("head_dim")) fields.Fail("head_dim", "is missing");
  ReadLlamaFields(fields, config);
  for (LayerShape& layer : config.layers) {
    layer.head_norm = HeadNorm::kEachHead;
  }
  if (fields.Flag("attention_bias", false)) {
    fields.Unimplemented("attention_bias true");
  }
  if (fields.Flag("mlp_bias", false)) fields.Unimplemented("mlp_bias true");
  ReadExpertLayers(fields, config);
  ReadMoeWindow(fields, config);
}

// Every layer has experts, and the weights of a row's experts sum to one, as
// llama.cpp computes it.
void ReadQwen3MoeGguf(GgufFields& fields, ModelConfig& config) {
  ReadGgufFields(fields, config);
  RefuseGgufWindow(fields, config);
  const ExpertsShape experts = {
      .count = fields.Size("expert_count"),
      .per_row = fields.Size("expert_used_count"),
      .ffn_size = fields.Size("expert_feed_forward_length")};
  if (experts.count > kMaxExperts) {
    fields.Fail("expert_count",
                absl::StrCat("must be an integer of 1 .. ", kMaxExperts));
  }
  if (experts.per_row > experts.count) {
    fields.Fail("expert_used_count", "must be at most expert_count");
  }
  fields.Refuse("expert_shared_count", 0);
  fields.Refuse("expert_weights_norm", true);
  fields.Refuse("expert_weights_scale", 1.0);
  for (LayerShape& layer : config.layers) {
    layer.head_norm = HeadNorm::kEachHead;
    layer.experts = experts;
  }
}

}  // namespace

Architecture Qwen3MoeArchitecture() {
  return {.folder_name = "Qwen3MoeForCausalLM",
          .read_folder = ReadQwen3MoeFolder,
          .gguf_name = "qwen3moe",
          .read_gguf = ReadQwen3MoeGguf};
}

}  // namespace espalier
