#include <filesystem>
#include <tuple>

#include "common/model/files/gguf_config.h"
#include "common/model/files/gguf_file.h"
#include "common/model/files/gguf_tokenizer.h"
#include "common/model/files/gguf_weights.h"
#include "common/model/files/tensor_values.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/memory_file.h"
#include "tests/testing/tiny_gguf.h"

namespace espalier::testing {
namespace gguf_fuzz {

// Returns one block of this type, and metadata of every kind.
std::string Pieces() {
  GgufBytes file;
  file.pairs = {Pair("general.alignment", kUint32, Raw<uint32_t>(32)),
                Pair("a", kInt64, Raw<int64_t>(-1)),
                Pair("b", kArray, Array(kFloat32, 2, Raw(1.0f) + Raw(2.0f))),
                Pair("c", kArray, Array(kString, 2, Str("x") + Str(""))),
                Pair("d", kBool, Raw<uint8_t>(1)),
                Pair("e", kString, Str("text"))};
  file.Add("w", {32}, static_cast<uint32_t>(GgufTensorType::kQ4_0),
           std::string(18, '\1'));
  file.Add("v", {2, 3}, static_cast<uint32_t>(GgufTensorType::kF32),
           std::string(24, '\0'));
  return file.Bytes();
}

// Metadata and directory of a tiny model, its weights cut to what fits.
std::string TinyLlama() {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       absl::StrCat("gguf_fuzz_", getpid());
  GgufBytes file = TinyGguf("llama", WriteTinyLlama(folder.string()));
  std::filesystem::remove_all(folder);
  return file.Bytes();
}

std::string TinyTokenizer() {
  GgufBytes file;
  file.pairs = TinyTokenizerPairs("gpt-2");
  return file.Bytes();
}

// SentencePiece's kind, and YaRN.
std::string TinySentencePiece() {
  const std::vector<std::tuple<std::string, float, int32_t>> pieces = {
      {"<unk>", 0, 2}, {"<s>", 0, 3}, {"<0x61>", 0, 6}, {"▁a", -1, 1},
      {"▁", -2, 1},    {"a", -3, 1},  {"la", -1, 1},    {"l", -4, 1}};
  std::string tokens, scores, types;
  for (const auto& [text, score, type] : pieces) {
    tokens += Str(text);
    scores += Raw(score);
    types += Raw(type);
  }
  GgufBytes file;
  file.pairs = {Pair("tokenizer.ggml.model", kString, Str("llama")),
                Pair("tokenizer.ggml.tokens", kArray,
                     Array(kString, pieces.size(), tokens)),
                Pair("tokenizer.ggml.scores", kArray,
                     Array(kFloat32, pieces.size(), scores)),
                Pair("tokenizer.ggml.token_type", kArray,
                     Array(kInt32, pieces.size(), types)),
                Pair("tokenizer.ggml.bos_token_id", kUint32, Raw<uint32_t>(1)),
                Pair("llama.rope.scaling.type", kString, Str("yarn")),
                Pair("llama.rope.scaling.factor", kFloat32, Raw(4.0f)),
                Pair("split.count", kUint16, Raw<uint16_t>(1))};
  return file.Bytes();
}

std::vector<std::string> Seeds() {
  return {Pieces(), TinyTokenizer(), TinyLlama(), TinySentencePiece()};
}

bool Try(std::string_view bytes) {
  const MemoryFile memory(bytes);
  const auto file = GgufFile::Open(memory.path());
  if (!file.ok()) return false;
  if (const auto tokenizer = ReadGgufTokenizer(*file); tokenizer.ok()) {
    (void)(*tokenizer)
        ->Decode((*tokenizer)->Encode("a glacier <|im_end|>"), false);
  }
  const auto config = ReadGgufConfig(*file);
  if (!config.ok()) return true;
  (void)ReadGgufEosIds(*file, config->vocab_size);
  const auto weights = ReadGgufWeights(*file, *config);
  if (!weights.ok()) return true;
  for (const auto& [name, view] : *weights) {
    const auto values = TensorValues::Of(name, view);
    if (!values.ok()) continue;
    std::vector<float> row(values->columns());
    values->Row(values->rows() - 1, row.data());
  }
  return true;
}

}  // namespace gguf_fuzz

FuzzTarget GgufTarget() { return {"gguf", gguf_fuzz::Seeds, gguf_fuzz::Try}; }

}  // namespace espalier::testing
