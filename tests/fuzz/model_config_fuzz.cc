#include <iterator>

#include "common/base/check.h"
#include "common/model/files/layer_features.h"
#include "common/model/files/model_config.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/testing/source_path.h"

namespace espalier::testing {
namespace model_config_fuzz {

std::vector<std::string> Seeds() {
  return {SourceFile("deploy/models/nanogpt-char/config.json"),
          R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64,
              "intermediate_size": 128, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2,
              "vocab_size": 300, "max_position_embeddings": 4096,
              "rms_norm_eps": 1e-5, "rope_theta": 500000,
              "rope_scaling": {"rope_type": "llama3", "factor": 8,
                "low_freq_factor": 1, "high_freq_factor": 4,
                "original_max_position_embeddings": 2048},
              "hidden_act": "silu", "tie_word_embeddings": true,
              "eos_token_id": [1, 2]})",
          R"({"architectures": ["SmolLM3ForCausalLM"], "hidden_size": 64,
              "intermediate_size": 128, "num_hidden_layers": 4,
              "num_attention_heads": 4, "num_key_value_heads": 2,
              "vocab_size": 300, "no_rope_layers": [1, 1, 1, 0],
              "rope_parameters": {"rope_type": "yarn", "factor": 4,
                "rope_theta": 5e6, "mscale": 1, "mscale_all_dim": 0.5,
                "original_max_position_embeddings": 2048}})",
          R"({"architectures": ["MistralForCausalLM"], "hidden_size": 64,
              "intermediate_size": 128, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2,
              "vocab_size": 300, "sliding_window": 8192,
              "rope_scaling": {"type": "linear", "factor": 2}})",
          R"({"architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 64,
              "intermediate_size": 128, "num_hidden_layers": 4,
              "num_attention_heads": 4, "num_key_value_heads": 2,
              "head_dim": 32, "vocab_size": 300, "num_experts": 8,
              "num_experts_per_tok": 2, "moe_intermediate_size": 32,
              "norm_topk_prob": true, "decoder_sparse_step": 2,
              "mlp_only_layers": [3]})",
          R"({"architectures": ["Qwen3ForCausalLM"], "hidden_size": 64,
              "intermediate_size": 96, "num_hidden_layers": 3,
              "num_attention_heads": 4, "head_dim": 16, "vocab_size": 300,
              "use_sliding_window": true, "sliding_window": 8,
              "max_window_layers": 1, "max_position_embeddings": 64})",
          R"({"architectures": ["Gemma2ForCausalLM"], "hidden_size": 64,
              "intermediate_size": 128, "num_hidden_layers": 3,
              "num_attention_heads": 4, "num_key_value_heads": 2,
              "head_dim": 32, "vocab_size": 300, "sliding_window": 512,
              "query_pre_attn_scalar": 144, "attn_logit_softcapping": 50.0,
              "final_logit_softcapping": null})",
          R"({"architectures": ["Gemma3ForCausalLM"], "hidden_size": 64,
              "intermediate_size": 128, "num_hidden_layers": 7,
              "num_attention_heads": 4, "num_key_value_heads": 1,
              "head_dim": 256, "vocab_size": 300, "sliding_window": 512,
              "query_pre_attn_scalar": 128,
              "hidden_activation": "gelu_pytorch_tanh",
              "layer_types": ["sliding_attention", "full_attention",
                "full_attention", "full_attention", "full_attention",
                "full_attention", "sliding_attention"],
              "rope_parameters": {"full_attention": {"rope_type": "linear",
                "factor": 8, "rope_theta": 1e6},
                "sliding_attention": {"rope_theta": 1e4}}})"};
}

bool Try(std::string_view bytes) {
  const auto config = ParseModelConfig(bytes, "config.json");
  if (!config.ok()) return false;
  ESPALIER_CHECK(config->num_layers > 0 && config->num_heads > 0);
  ESPALIER_CHECK(std::ssize(config->layers) == config->num_layers);
  for (const LayerShape& layer : config->layers) {
    ESPALIER_CHECK(layer.rotary < std::ssize(config->rotary));
    ESPALIER_CHECK(layer.experts.per_row <= layer.experts.count);
    ESPALIER_CHECK(layer.window >= 0);
    ESPALIER_CHECK(layer.score_softcap >= 0);
  }
  (void)FeaturesOf(*config);
  if (config->kind != DecoderKind::kLlama) return true;
  ESPALIER_CHECK(config->num_heads % config->num_kv_heads == 0);
  for (int32_t i = 0; i < std::ssize(config->rotary); ++i) {
    ESPALIER_CHECK(std::ssize(RotaryFrequencies(*config, i)) ==
                   config->head_dim / 2);
    ESPALIER_CHECK(RotaryScale(*config, i) > 0);
  }
  return true;
}

}  // namespace model_config_fuzz

FuzzTarget ModelConfigTarget() {
  return {"model_config", model_config_fuzz::Seeds, model_config_fuzz::Try};
}

}  // namespace espalier::testing
