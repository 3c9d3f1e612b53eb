#include "common/base/check.h"
#include "common/model/files/model_config.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/source_file.h"

namespace espalier::testing {
namespace {

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
              "rope_scaling": {"type": "linear", "factor": 2}})"};
}

bool Try(std::string_view bytes) {
  const auto config = ParseModelConfig(bytes, "config.json");
  if (!config.ok()) return false;
  ESPALIER_CHECK(config->num_layers > 0 && config->num_heads > 0);
  if (config->architecture != Architecture::kLlama) return true;
  ESPALIER_CHECK(config->num_heads % config->num_kv_heads == 0);
  ESPALIER_CHECK(static_cast<int64_t>(RotaryFrequencies(*config).size()) ==
                 config->head_dim / 2);
  ESPALIER_CHECK(RotaryScale(*config) > 0);
  (void)Rotates(*config, config->num_layers - 1);
  return true;
}

}  // namespace

FuzzTarget ModelConfigTarget() { return {"model_config", Seeds, Try}; }

}  // namespace espalier::testing
