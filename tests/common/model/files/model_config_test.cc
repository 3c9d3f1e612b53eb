#include "common/model/files/model_config.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace espalier {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json Llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"num_hidden_layers", 4},
          {"hidden_size", 48},
          {"num_attention_heads", 6},
          {"num_key_value_heads", 2},
          {"intermediate_size", 96},
          {"vocab_size", 300},
          {"max_position_embeddings", 128},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 5000.0},
          {"tie_word_embeddings", true},
          {"eos_token_id", 2}};
}

// Returns the configuration published for the small ones, scaled down.
Json Qwen3() {
  Json json = Llama();
  json.update({{"architectures", {"Qwen3ForCausalLM"}},
               {"attention_bias", false},
               {"head_dim", 16},
               {"max_window_layers", 4},
               {"rope_scaling", nullptr},
               {"rope_theta", 1000000},
               {"sliding_window", nullptr},
               {"use_sliding_window", false}});
  return json;
}

Json Gpt2() {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"n_layer", 2},
          {"n_embd", 48},
          {"n_head", 4},
          {"n_positions", 64},
          {"vocab_size", 65}};
}

absl::StatusOr<ModelConfig> Parse(const Json& json) {
  return ParseModelConfig(json.dump(), "config.json");
}

void ExpectError(const Json& json, absl::StatusCode code,
                 const std::string& text) {
  const auto config = Parse(json);
  EXPECT_EQ(config.status().code(), code) << config.status();
  EXPECT_THAT(config.status().message(),
              AllOf(HasSubstr("config.json"), HasSubstr(text)));
}

TEST(ModelConfig, ReadsLlama) {
  const auto config = Parse(Llama());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, DecoderKind::kLlama);
  EXPECT_EQ(config->num_layers, 4);
  EXPECT_EQ(config->num_kv_heads, 2);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->layers[3].ffn_size, 96);
  EXPECT_EQ(config->rotary[0].theta, 5000);
  EXPECT_TRUE(config->tied_head);
  EXPECT_THAT(config->eos_ids, ElementsAre(2));
}

TEST(ModelConfig, ReadsQwen3AsLlamaWithNormalizedHeads) {
  EXPECT_EQ(Parse(Llama())->layers[0].head_norm, HeadNorm::kNone);
  const auto config = Parse(Qwen3());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, DecoderKind::kLlama);
  EXPECT_EQ(config->layers[3].head_norm, HeadNorm::kEachHead);
  EXPECT_EQ(config->head_dim, 16);  // not hidden_size / num_attention_heads
  EXPECT_EQ(config->rotary[0].theta, 1e6);
  EXPECT_TRUE(config->tied_head);
}

TEST(ModelConfig, Qwen3HasItsHeadDimNoBiasAndSeesTheWholeText) {
  Json json = Qwen3();
  json.erase("head_dim");
  ExpectError(json, absl::StatusCode::kInvalidArgument, "head_dim");
  json = Qwen3();
  json["sliding_window"] = 64;  // not used, as transformers has it
  json["layer_types"] = Json::array({"full_attention", "full_attention"});
  EXPECT_TRUE(Parse(json).ok());
  json["layer_types"] = Json::array({"full_attention", "sliding_attention"});
  ExpectError(json, absl::StatusCode::kUnimplemented, "layer_types");
  json["layer_types"] = 3;
  ExpectError(json, absl::StatusCode::kInvalidArgument, "layer_types");
  json = Qwen3();
  json["attention_bias"] = true;
  ExpectError(json, absl::StatusCode::kUnimplemented, "attention_bias");
}

TEST(ModelConfig, Qwen3MayHaveWindowsInItsLastLayers) {
  Json json = Qwen3();
  json["use_sliding_window"] = true;
  json["sliding_window"] = 64;
  const auto windows = [&json] {
    std::vector<int64_t> by_layer;
    const auto config = Parse(json);
    EXPECT_TRUE(config.ok()) << config.status();
    for (const LayerShape& layer : config->layers) {
      by_layer.push_back(layer.window);
    }
    by_layer.resize(2);
    return by_layer;
  };
  EXPECT_THAT(windows(), ElementsAre(0, 0));  // max_window_layers is 28
  json["max_window_layers"] = 1;
  EXPECT_THAT(windows(), ElementsAre(0, 64));
  json["max_window_layers"] = 0;
  EXPECT_THAT(windows(), ElementsAre(64, 64));
  json["layer_types"] = Json::array({"sliding_attention", "full_attention",
                                     "full_attention", "full_attention"});
  EXPECT_THAT(windows(), ElementsAre(64, 0));
  json["sliding_window"] = nullptr;
  EXPECT_THAT(windows(), ElementsAre(0, 0));
  json["layer_types"] = 3;
  json["sliding_window"] = 64;
  ExpectError(json, absl::StatusCode::kInvalidArgument, "layer_types");
}

TEST(ModelConfig, Qwen3MoeMayHaveOneWindowInAllLayers) {
  Json json = Qwen3();
  json.update({{"architectures", {"Qwen3MoeForCausalLM"}},
               {"num_experts", 4},
               {"num_experts_per_tok", 2},
               {"moe_intermediate_size", 8},
               {"max_window_layers", 1},
               {"sliding_window", 64}});
  const auto windows = [&json] {
    const auto config = Parse(json);
    EXPECT_TRUE(config.ok()) << config.status();
    return std::vector<int64_t>{config->layers.front().window,
                                config->layers.back().window};
  };
  EXPECT_THAT(windows(), ElementsAre(0, 0));
  json["use_sliding_window"] = true;
  EXPECT_THAT(windows(), ElementsAre(64, 64));
  json["sliding_window"] = nullptr;
  EXPECT_THAT(windows(), ElementsAre(0, 0));
  json["layer_types"] = Json::array(
      {"full_attention", "full_attention", "full_attention", "full_attention"});
  ExpectError(json, absl::StatusCode::kUnimplemented,
              "layer_types beside use_sliding_window");
}

TEST(ModelConfig, Gemma2HasSoftcapsAndAWindowInEveryOtherLayer) {
  Json json = Llama();
  json.update({{"architectures", {"Gemma2ForCausalLM"}},
               {"hidden_size", 64},
               {"head_dim", 16},
               {"query_pre_attn_scalar", 24},
               {"sliding_window", 32}});
  const auto config = Parse(json);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->logit_softcap, 30);
  EXPECT_EQ(config->embedding_scale, 8);
  for (int i = 0; i < 4; ++i) {
    const LayerShape& layer = config->layers[i];
    EXPECT_EQ(layer.score_softcap, 50);
    EXPECT_EQ(layer.window, i % 2 == 0 ? 32 : 0) << i;
    EXPECT_EQ(layer.query_scalar, 24);
    EXPECT_EQ(layer.head_norm, HeadNorm::kNone);
  }
  json["attn_logit_softcapping"] = nullptr;
  json["final_logit_softcapping"] = 7.5;
  EXPECT_EQ(Parse(json)->layers[3].score_softcap, 0);
  EXPECT_EQ(Parse(json)->logit_softcap, 7.5);
  json["attn_logit_softcapping"] = -1;
  ExpectError(json, absl::StatusCode::kInvalidArgument,
              "attn_logit_softcapping");
}

TEST(ModelConfig, ReadsGpt2WithItsDefaults) {
  const auto config = Parse(Gpt2());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kind, DecoderKind::kGpt2);
  EXPECT_EQ(config->num_kv_heads, 4);
  EXPECT_EQ(config->head_dim, 12);
  EXPECT_EQ(config->layers[1].ffn_size, 192);
  EXPECT_EQ(config->max_positions, 64);
  EXPECT_EQ(config->layers[0].activation, Activation::kGeluTanh);
  EXPECT_TRUE(config->tied_head);
  EXPECT_THAT(config->eos_ids, IsEmpty());
}

TEST(ModelConfig, UnknownArchitectureListsTheKnownOnes) {
  Json json = Llama();
  json["architectures"] = {"MambaForCausalLM"};
  ExpectError(json, absl::StatusCode::kUnimplemented, "MambaForCausalLM");
  ExpectError(json, absl::StatusCode::kUnimplemented,
              "known: GPT2LMHeadModel, Gemma2ForCausalLM, Gemma3ForCausalLM, "
              "LlamaForCausalLM, MistralForCausalLM, Olmo2ForCausalLM, "
              "Qwen2ForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM, "
              "SmolLM3ForCausalLM");
  json["architectures"] = 3;
  ExpectError(json, absl::StatusCode::kInvalidArgument, "architectures");
}

TEST(ModelConfig, WrongFieldsAreNamed) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  for (const char* field : {"num_hidden_layers", "hidden_size", "vocab_size",
                            "num_attention_heads", "intermediate_size"}) {
    Json json = Llama();
    json.erase(field);
    ExpectError(json, kInvalid, field);
    for (const Json& bad : {Json(0), Json(-3), Json("8"), Json(1e300),
                            Json(int64_t{1} << 40), Json::array({1})}) {
      json[field] = bad;
      ExpectError(json, kInvalid, field);
    }
  }
  Json json = Llama();
  json["rms_norm_eps"] = 0;
  ExpectError(json, kInvalid, "rms_norm_eps");
  json = Llama();
  json["eos_token_id"] = Json::array({2, 300});
  ExpectError(json, kInvalid, "0 .. 299");
}

TEST(ModelConfig, HeadsMustDivide) {
  Json json = Llama();
  json["num_key_value_heads"] = 4;
  ExpectError(json, absl::StatusCode::kInvalidArgument, "num_key_value_heads");
  json = Llama();
  json["num_attention_heads"] = 7;
  ExpectError(json, absl::StatusCode::kInvalidArgument, "num_attention_heads");
  json = Llama();
  json["head_dim"] = 9;
  ExpectError(json, absl::StatusCode::kInvalidArgument, "head_dim");
  json = Gpt2();
  json["n_head"] = 5;
  ExpectError(json, absl::StatusCode::kInvalidArgument, "n_head");
}

TEST(ModelConfig, OptionsThatTheEngineLacksAreNamed) {
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  Json json = Llama();
  json["rope_scaling"] = {{"rope_type", "longrope"}, {"factor", 2}};
  ExpectError(json, kUnimplemented, "longrope");
  json["rope_scaling"] = {{"type", "longrope"},  // as Phi-3 has it
                          {"short_factor", {1.0, 1.1}},
                          {"long_factor", {1.0, 4.0}}};
  ExpectError(json, kUnimplemented, "longrope");
  json = Llama();
  json["partial_rotary_factor"] = 0.5;
  ExpectError(json, kUnimplemented, "partial_rotary_factor");
  json = Llama();
  json["hidden_act"] = "relu6";
  ExpectError(json, kUnimplemented, "relu6");
  json = Llama();
  json["quantization_config"] = {{"bits", 4}};
  ExpectError(json, kUnimplemented, "quantization_config");
  json = Gpt2();
  json["scale_attn_by_inverse_layer_idx"] = true;
  ExpectError(json, kUnimplemented, "scale_attn_by_inverse_layer_idx");
}

// Expected values from the definition: waves longer than 8192 / 1 positions
// turn 8 times slower, those shorter than 8192 / 4 stay.
TEST(ModelConfig, Llama3RopeScalingStretchesLongWaves) {
  Json json = Llama();
  json["head_dim"] = 64;
  json["rope_theta"] = 500000.0;
  const auto plain = Parse(json);
  json["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}};
  const auto scaled = Parse(json);
  ASSERT_TRUE(scaled.ok()) << scaled.status();
  const auto before = RotaryFrequencies(*plain);
  const auto after = RotaryFrequencies(*scaled);
  ASSERT_EQ(after.size(), 32u);
  EXPECT_DOUBLE_EQ(after.front(), before.front());
  EXPECT_DOUBLE_EQ(after.back(), before.back() / 8);
  int between = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_LE(after[i], before[i]);
    EXPECT_GE(after[i], before[i] / 8 * (1 - 1e-12));
    between += after[i] < before[i] * 0.999 && after[i] > before[i] / 7.999;
  }
  EXPECT_GT(between, 0);
}

Json Mistral() {
  Json json = Llama();
  json["architectures"] = {"MistralForCausalLM"};
  json["max_position_embeddings"] = 1024;
  json["sliding_window"] = nullptr;
  return json;
}

TEST(ModelConfig, AWindowThatEveryTextFitsIntoIsNone) {
  Json json = Mistral();
  ASSERT_TRUE(Parse(json).ok()) << Parse(json).status();
  const auto window = [&] { return Parse(json)->layers[1].window; };
  EXPECT_EQ(window(), 0);
  json["sliding_window"] = 1024;
  EXPECT_EQ(window(), 0);
  json["sliding_window"] = 1023;
  EXPECT_EQ(window(), 1023);
  // In transformers, the default is 4096.
  json.erase("sliding_window");
  EXPECT_EQ(window(), 0);
  json["max_position_embeddings"] = 8192;
  EXPECT_EQ(window(), 4096);
}

std::vector<int64_t> Unrotated(const ModelConfig& config) {
  std::vector<int64_t> layers;
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if (!config.layers[i].rotates()) layers.push_back(i);
  }
  return layers;
}

TEST(ModelConfig, SmolLm3SaysWhichLayersDoNotRotate) {
  Json json = Llama();
  json["architectures"] = {"SmolLM3ForCausalLM"};
  json["num_hidden_layers"] = 5;
  json.erase("rope_theta");
  json.erase("tie_word_embeddings");
  auto config = Parse(json);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(Unrotated(*config), ElementsAre(3));
  EXPECT_EQ(config->rotary[0].theta, 2e6);
  EXPECT_TRUE(config->tied_head);
  json["no_rope_layer_interval"] = 2;
  EXPECT_THAT(Unrotated(*Parse(json)), ElementsAre(1, 3));
  json["no_rope_layers"] = {1, 0, 0, 1, 1, 0};
  EXPECT_THAT(Unrotated(*Parse(json)), ElementsAre(1, 2));
  json["no_rope_layers"] = {1, 0};
  ExpectError(json, absl::StatusCode::kInvalidArgument, "no_rope_layers");
  json["no_rope_layers"] = "none";
  ExpectError(json, absl::StatusCode::kInvalidArgument, "no_rope_layers");
}

TEST(ModelConfig, MistakesInRopeScalingAreNamed) {
  const auto expect = [](const Json& scaling, const char* text) {
    Json json = Llama();
    json["rope_scaling"] = scaling;
    ExpectError(json, absl::StatusCode::kInvalidArgument, text);
  };
  expect({{"rope_type", "linear"}}, "rope_scaling.factor");
  expect({{"rope_type", "yarn"}, {"factor", -1}}, "rope_scaling.factor");
  expect({{"rope_type", "yarn"}, {"factor", 2}, {"beta_slow", 40}},
         "rope_scaling.beta_slow");
  expect({{"rope_type", "yarn"}, {"factor", 2}, {"rope_theta", 1}},
         "rope_scaling.rope_theta");
  expect({{"rope_type", "llama3"},
          {"factor", 2},
          {"low_freq_factor", 4},
          {"high_freq_factor", 1}},
         "rope_scaling.low_freq_factor");
}

TEST(ModelConfig, GenerationConfigReplacesTheEndTokens) {
  const std::string folder = ::testing::TempDir() + "/model_config_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << Llama();
  std::ofstream(folder + "/generation_config.json")
      << R"({"eos_token_id": [7, 8]})";
  const auto config = ReadModelConfig(folder);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->eos_ids, ElementsAre(7, 8));
  EXPECT_EQ(ReadModelConfig(folder + "/none").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace espalier
