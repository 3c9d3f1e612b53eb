// Folders that are refused, each with the reason.
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "drafter/dflash/dflash_config.h"
#include "drafter/drafters.h"
#include "drafter/heads/head_target.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/dflash/tiny_dflash.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TinyDflash;

std::string NewFolder() {
  static int count = 0;
  return absl::StrCat(testing::TinyDflashOnDisk().drafter, "_", ++count);
}

absl::Status LoadWith(std::map<std::string, std::string> options) {
  return NewDflashDrafter({.options = std::move(options),
                           .target_folder = testing::TinyDflashOnDisk().target})
      .status();
}

absl::Status Load(const TinyDflash& drafter) {
  const std::string folder = NewFolder();
  testing::WriteTinyDflash(drafter, folder);
  return LoadWith({{"model", folder}});
}

TEST(DflashLoadingTest, AcceptsTheFormsThatFilesHave) {
  EXPECT_TRUE(Load(testing::MakeTinyDflash()).ok());
  EXPECT_TRUE(Load(testing::MakeTinyDflash(/*draft_vocab=*/100)).ok());

  TinyDflash inside = testing::MakeTinyDflash();
  inside.config.erase("block_size");
  inside.config["dflash_config"]["block_size"] = 8;
  EXPECT_TRUE(Load(inside).ok());

  TinyDflash prefixed = testing::MakeTinyDflash();
  prefixed.tensors.clear();
  for (auto& [name, tensor] : testing::MakeTinyDflash().tensors) {
    prefixed.tensors["model." + name] = tensor;
  }
  EXPECT_TRUE(Load(prefixed).ok());
}

// Returns the configuration of a drafter with `layers` layers for a target of
// `target_layers`.
DflashConfig ConfigFor(int64_t layers, int64_t target_layers,
                       const nlohmann::json& changes) {
  auto target =
      OpenHeadTarget({.target_folder = testing::TinyDflashOnDisk().target});
  EXPECT_TRUE(target.ok()) << target.status();
  target->config.num_layers = target_layers;
  TinyDflash drafter = testing::MakeTinyDflash();
  drafter.config.merge_patch({{"num_hidden_layers", layers},
                              {"num_target_layers", target_layers},
                              {"layer_types", nullptr}});
  drafter.config.merge_patch(changes);
  const std::string folder = NewFolder();
  testing::WriteTinyDflash(drafter, folder);
  auto config = ReadDflashConfig(folder, *target);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *std::move(config) : DflashConfig();
}

TEST(DflashLoadingTest, WithoutLayerIdsTheyAreEvenlySpread) {
  const nlohmann::json none = {
      {"dflash_config", {{"target_layer_ids", nullptr}}}};
  EXPECT_THAT(ConfigFor(5, 36, none).taps, ElementsAre(2, 10, 18, 26, 34));
  EXPECT_THAT(ConfigFor(5, 30, none).taps, ElementsAre(2, 9, 15, 21, 28));
  EXPECT_THAT(ConfigFor(1, 30, none).taps, ElementsAre(16));
}

TEST(DflashLoadingTest, TheFieldsAreRead) {
  const DflashConfig config = ConfigFor(2, 2, nlohmann::json::object());
  EXPECT_EQ(config.block_size, testing::kTinyBlock);
  EXPECT_EQ(config.mask_token, testing::kTinyImStart);
  EXPECT_EQ(config.layers.rotary[0].theta, 1e6);
  EXPECT_FALSE(config.causal);
  EXPECT_TRUE(ConfigFor(2, 2, {{"is_causal", true}}).causal);
  EXPECT_TRUE(
      ConfigFor(2, 2, {{"dflash_config", {{"causal_head", true}}}}).causal);
}

struct BadConfig {
  nlohmann::json changes;  // null removes a field
  const char* problem;
};

TEST(DflashLoadingTest, ConfigurationsAreCheckedFieldByField) {
  const BadConfig cases[] = {
      {{{"architectures", {"LlamaForCausalLM"}}}, "architectures: must be"},
      {{{"vocab_size", 96}}, "vocab_size"},
      {{{"hidden_size", 64}}, "hidden_size: is 64, the target's is 48"},
      {{{"num_target_layers", 36}},
       "num_target_layers: is 36, the target's is 2"},
      {{{"num_hidden_layers", nullptr}}, "num_hidden_layers: is missing"},
      {{{"num_hidden_layers", 1000000000}}, "num_hidden_layers: must be"},
      {{{"num_key_value_heads", 2}}, "num_key_value_heads: must divide"},
      {{{"head_dim", 12}}, "head_dim: is 12, not a multiple of 8"},
      {{{"rope_theta", -1}}, "rope_theta: must be"},
      {{{"rope_scaling", {{"rope_type", "longrope"}, {"factor", 2}}}},
       "rope_type \"longrope\""},
      {{{"layer_types", {"full_attention", "sliding_attention"}},
        {"use_sliding_window", false}},
       "sliding layer_types beside use_sliding_window false"},
      {{{"layer_types", {"full_attention", "sliding_attention"}},
        {"use_sliding_window", true},
        {"sliding_window", nullptr}},
       "sliding_window: is missing"},
      {{{"layer_types", {"full_attention", "sliding_attention"}},
        {"use_sliding_window", true},
        {"sliding_window", 2}},
       "sliding_window: is 2, below the block's"},
      {{{"layer_types", {"full_attention"}}}, "layer_types: must be a list"},
      {{{"use_sliding_window", true}}, "use_sliding_window true"},
      {{{"attention_bias", true}}, "attention_bias true"},
      {{{"mlp_bias", true}}, "mlp_bias true"},
      {{{"hidden_act", "gelu"}}, "hidden_act but silu"},
      {{{"block_size", nullptr}}, "block_size: is missing"},
      {{{"block_size", 1}}, "block_size: must be an integer of 2 .. 256"},
      {{{"block_size", 257}}, "block_size: must be an integer of 2 .. 256"},
      {{{"dflash_config", {{"mask_token_id", nullptr}}}},
       "mask_token_id: must be an integer of 0 .. 257"},
      {{{"dflash_config", {{"mask_token_id", 258}}}},
       "mask_token_id: must be an integer of 0 .. 257"},
      {{{"dflash_config", {{"target_layer_ids", {1, 0}}}}},
       "target_layer_ids: [1, 0] must be ascending"},
      {{{"dflash_config", {{"target_layer_ids", {0, 2}}}}},
       "target_layer_ids: [0, 2] must be ascending layers of 0 .. 1"},
      {{{"dflash_config", {{"target_layer_ids", nlohmann::json::array()}}}},
       "target_layer_ids: [] must be"},
      {{{"dflash_config", {{"target_layer_ids", {-1, 1}}}}},
       "target_layer_ids[0]: must be an integer of 0"},
      {{{"dflash_config", {{"markov_head", true}}}}, "markov_head"},
      {{{"dflash_config", 3}}, "dflash_config: must be an object"},
      {{{"draft_vocab_size", 259}}, "draft_vocab_size: is 259, limit 258"},
      {{{"input_embedding_scale", 2.0}}, "input_embedding_scale"},
      {{{"output_multiplier", 0.5}}, "output_multiplier"},
      {{{"final_logit_softcapping", 30.0}}, "final_logit_softcapping"},
      {{{"quantization_config", {{"bits", 4}}}}, "quantization_config"},
  };
  for (const BadConfig& bad : cases) {
    TinyDflash drafter = testing::MakeTinyDflash();
    drafter.config.merge_patch(bad.changes);
    const absl::Status status = Load(drafter);
    EXPECT_FALSE(status.ok()) << bad.changes;
    EXPECT_THAT(status.message(), HasSubstr(bad.problem)) << bad.changes;
    EXPECT_THAT(status.message(), HasSubstr("config.json"));
  }
}

struct BadTensors {
  std::function<void(testing::TinyTensors&)> change;
  const char* problem;
};

TEST(DflashLoadingTest, TensorsAreCheckedByNameAndShape) {
  const char* const kFc = "fc.weight";
  const BadTensors cases[] = {
      {[&](auto& tensors) { tensors.erase(kFc); }, kFc},
      {[](auto& tensors) { tensors.erase("layers.1.mlp.up_proj.weight"); },
       "layers.1.mlp.up_proj.weight"},
      {[](auto& tensors) { tensors.erase("layers.0.self_attn.k_norm.weight"); },
       "layers.0.self_attn.k_norm.weight"},
      {[](auto& tensors) { tensors["lm_head.weight"] = tensors["fc.weight"]; },
       "tensor lm_head.weight is not part of the layout"},
      {[](auto& tensors) {
         tensors["layers.2.input_layernorm.weight"] = tensors["norm.weight"];
       },
       "tensor layers.2.input_layernorm.weight is not part of the layout"},
      {[](auto& tensors) {
         std::swap(tensors["fc.weight"].shape[0],
                   tensors["fc.weight"].shape[1]);
       },
       kFc},
      {[](auto& tensors) { tensors["d2t"] = {.shape = {1}, .integers = {0}}; },
       "tensor d2t is not part of the layout"},
      {[](auto& tensors) {
         tensors["norm.weight"] = {.shape = {48},
                                   .integers = std::vector<int64_t>(48, 1)};
       },
       "norm.weight has dtype I64"},
  };
  for (const BadTensors& bad : cases) {
    TinyDflash drafter = testing::MakeTinyDflash();
    bad.change(drafter.tensors);
    const absl::Status status = Load(drafter);
    EXPECT_FALSE(status.ok()) << bad.problem;
    EXPECT_THAT(status.message(), HasSubstr(bad.problem));
  }
}

TEST(DflashLoadingTest, TheMapOfTheVocabularyIsChecked) {
  const BadTensors cases[] = {
      {[](auto& tensors) { tensors.erase("d2t"); }, "d2t"},
      {[](auto& tensors) { tensors["d2t"].integers[99] = 259 - 100; }, "d2t"},
      {[](auto& tensors) { tensors["d2t"].integers[0] = -1; }, "d2t"},
      {[](auto& tensors) { tensors["d2t"].integers[5] = -1; }, "d2t"},
      {[](auto& tensors) {
         tensors["d2t"].shape = {99};
         tensors["d2t"].integers.pop_back();
       },
       "d2t"},
  };
  for (const BadTensors& bad : cases) {
    TinyDflash drafter = testing::MakeTinyDflash(/*draft_vocab=*/100);
    bad.change(drafter.tensors);
    const absl::Status status = Load(drafter);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr(bad.problem));
  }
}

TEST(DflashLoadingTest, FilesThatAreNoneAreNamed) {
  EXPECT_TRUE(absl::IsNotFound(LoadWith({{"model", NewFolder()}})));
  const std::string folder = NewFolder();
  testing::WriteTinyDflash(testing::MakeTinyDflash(), folder);
  std::ofstream(folder + "/config.json") << "{\"block_size\": ";
  EXPECT_THAT(LoadWith({{"model", folder}}).message(),
              HasSubstr("config.json"));
  testing::WriteTinyDflash(testing::MakeTinyDflash(), folder);
  std::filesystem::resize_file(folder + "/model.safetensors", 1000);
  EXPECT_THAT(LoadWith({{"model", folder}}).message(),
              HasSubstr("model.safetensors"));
}

TEST(DflashLoadingTest, OptionsAreChecked) {
  const std::string folder = testing::TinyDflashOnDisk().drafter;
  const std::pair<std::map<std::string, std::string>, const char*> cases[] = {
      {{}, "model"},
      {{{"model", folder}, {"mode", "forest"}}, "mode"},
      {{{"model", folder}, {"width", "1025"}}, "width"},
      {{{"model", folder}, {"noise_scale", "0"}}, "noise_scale"},
      {{{"model", folder}, {"threads", "0"}}, "threads"},
      {{{"model", folder}, {"compute_type", "float64"}}, "compute_type"},
      {{{"model", folder}, {"cpu_kernels", "none"}}, "cpu_kernels"},
      {{{"model", folder}, {"depth", "3"}}, "unknown option \"depth\""},
  };
  for (const auto& [options, problem] : cases) {
    const absl::Status status = LoadWith(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << problem;
    EXPECT_THAT(status.message(), HasSubstr(problem));
  }
}

TEST(DflashLoadingTest, TheTokenizerMustBeTheTargets) {
  TinyDflash drafter = testing::MakeTinyDflash();
  drafter.config["espalier"] = {{"tokenizer_fingerprint", "00000000000000ab"}};
  const std::string folder = NewFolder();
  testing::WriteTinyDflash(drafter, folder);
  auto load = [&](uint64_t fingerprint) {
    return NewDflashDrafter(
               {.options = {{"model", folder}},
                .target_folder = testing::TinyDflashOnDisk().target,
                .tokenizer_fingerprint = fingerprint})
        .status();
  };
  EXPECT_TRUE(load(0xab).ok());
  EXPECT_TRUE(load(0).ok());  // not known
  EXPECT_THAT(load(0xac).message(), HasSubstr("tokenizer_fingerprint"));
}

TEST(DflashLoadingTest, TheTargetMustBeThere) {
  const auto status =
      NewDflashDrafter(
          {.options = {{"model", testing::TinyDflashOnDisk().drafter}},
           .target_folder = "/no/such/target"})
          .status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
}

}  // namespace
}  // namespace espalier::drafter
