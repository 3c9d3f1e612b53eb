#ifndef ESPALIER_TESTS_DRAFTER_DFLASH_TINY_DFLASH_H_
#define ESPALIER_TESTS_DRAFTER_DFLASH_TINY_DFLASH_H_

#include <cstdint>
#include <string>

#include "common/speculation/features.h"
#include "nlohmann/json.hpp"
#include "tests/testing/tiny_model.h"

namespace espalier::testing {

// A random block drafter for the tiny Llama, in the published layout, to be
// changed and written.
struct TinyDflash {
  nlohmann::json config;
  TinyTensors tensors;
};

// The shape of its layers; `hidden` is the target's.
struct TinyDflashShape {
  int64_t hidden = 48;  // as the tiny Llama has it
  int64_t heads = 3;
  int64_t kv_heads = 1;
  int64_t head_dim = 32;
  int64_t ffn = 64;
};
// For the wide Llama; kernels for GPUs cover it.
inline constexpr TinyDflashShape kWideDflash = {
    .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 64, .ffn = 128};

// Two layers that read the outputs of the target's two. `draft_vocab` below
// kTinyVocab: proposes only the tokens below it.
TinyDflash MakeTinyDflash(int64_t draft_vocab = kTinyVocab,
                          const TinyDflashShape& shape = {});
inline constexpr int64_t kTinyBlock = 6;

// Writes config.json and model.safetensors.
void WriteTinyDflash(const TinyDflash& drafter, const std::string& folder);

// A drafter of these tokens with its target, made once in a process.
struct TinyDflashFolders {
  std::string drafter;
  std::string target;
};
TinyDflashFolders TinyDflashOnDisk(int64_t draft_vocab = kTinyVocab);

// Features of the positions before the last token, random but functions of the
// text up to their position.
FeatureRows TinyFeatures(const std::vector<int32_t>& tokens, int64_t width);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_DRAFTER_DFLASH_TINY_DFLASH_H_
