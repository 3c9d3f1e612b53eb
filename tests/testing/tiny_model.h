#ifndef ESPALIER_TESTS_TESTING_TINY_MODEL_H_
#define ESPALIER_TESTS_TESTING_TINY_MODEL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace espalier::testing {

struct TinyTensor {
  std::vector<int64_t> shape;
  std::vector<float> values = {};  // representable in bf16, as they are stored
  std::vector<int64_t> integers = {};  // if not empty, these are stored instead
};
using TinyTensors = std::map<std::string, TinyTensor>;

// Vocabulary of the tiny models: token b is the byte b, and the two ChatML
// marks. The second ends a text.
inline constexpr int32_t kTinyImStart = 256;
inline constexpr int32_t kTinyImEnd = 257;
inline constexpr int64_t kTinyVocab = 258;
inline constexpr int64_t kTinyMaxPositions = 512;
inline constexpr int64_t kTinyHeads = 6;
inline constexpr int64_t kTinyKvHeads = 2;

// Write a model folder (config.json, tokenizer.json, model.safetensors) of two
// layers with random weights: the same seed gives the same bytes everywhere.
// The text of these models makes no sense, but it varies, and the best token
// leads clearly most of the time. Return the weights.
TinyTensors WriteTinyLlama(const std::string& folder, uint64_t seed = 1);
// Heads wider than the hidden size makes them, and a tied head.
TinyTensors WriteTinyQwen3(const std::string& folder, uint64_t seed = 1);
// Biases at queries, keys and values.
TinyTensors WriteTinyQwen2(const std::string& folder, uint64_t seed = 1);
// Six experts in each layer, two for a row: the second and the fifth always
// have the same router logit, and other weights.
TinyTensors WriteTinyQwen3Moe(const std::string& folder, uint64_t seed = 1);
// The first layer has a window of kTinyWindow positions and a rotary table of
// its own, the second one sees the whole text.
inline constexpr int64_t kTinyWindow = 12;
TinyTensors WriteTinyGemma3(const std::string& folder, uint64_t seed = 1);
// Gemma 3 without norms of heads and with one table, whose scores and logits
// are capped where many of them are.
inline constexpr double kTinyScoreSoftcap = 4, kTinyLogitSoftcap = 2;
TinyTensors WriteTinyGemma2(const std::string& folder, uint64_t seed = 1);
// A Llama, all of whose layers have that window.
TinyTensors WriteTinyMistral(const std::string& folder, uint64_t seed = 1);
TinyTensors WriteTinyGpt2(const std::string& folder, uint64_t seed = 1);
// Write models of the least shapes that the GPU kernels cover: heads of 64, of
// Qwen3 128, of Gemma 256.
TinyTensors WriteWideLlama(const std::string& folder, uint64_t seed = 1);
TinyTensors WriteWideQwen3(const std::string& folder, uint64_t seed = 1);
TinyTensors WriteWideQwen2(const std::string& folder, uint64_t seed = 1);
TinyTensors WriteWideMistral(const std::string& folder, uint64_t seed = 1);
TinyTensors WriteWideQwen3Moe(const std::string& folder, uint64_t seed = 1);
TinyTensors WriteWideGemma3(const std::string& folder, uint64_t seed = 1);

// A file in the safetensors format: bf16, and 64-bit integers.
void WriteSafetensors(const std::string& path, const TinyTensors& tensors);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_TESTING_TINY_MODEL_H_
