// The tests of language models share these: subjects, trees, a loaded tiny
// model.
#ifndef ESPALIER_TESTS_COMMON_MODEL_LANGUAGE_MODEL_FIXTURE_H_
#define ESPALIER_TESTS_COMMON_MODEL_LANGUAGE_MODEL_FIXTURE_H_

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/bf16.h"
#include "common/model/language_model.h"
#include "common/model/load/load_model.h"
#include "gtest/gtest.h"
#include "tests/common/model/same_rows.h"
#include "tests/testing/cuda_test_device.h"
#include "tests/testing/tiny_model.h"

namespace espalier {

using Rows = std::vector<std::vector<float>>;

struct Tree {
  std::vector<TokenId> tokens;
  std::vector<int32_t> parents;
};

inline std::vector<TokenId> RandomTokens(std::mt19937& random, int64_t count) {
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(random() % 256);
  return tokens;
}

// Returns one root, as in a round of speculation, and then any shape.
inline Tree RandomTree(std::mt19937& random, int32_t rows) {
  Tree tree{.tokens = RandomTokens(random, rows), .parents = {kPrefixParent}};
  for (int32_t row = 1; row < rows; ++row) {
    tree.parents.push_back(static_cast<int32_t>(random() % row));
  }
  return tree;
}

inline std::vector<int32_t> PathTo(const Tree& tree, int32_t row) {
  std::vector<int32_t> path;
  for (; row != kPrefixParent; row = tree.parents[row]) path.push_back(row);
  std::reverse(path.begin(), path.end());
  return path;
}

inline SequenceRows AllRows(CacheId cache, const Tree& tree) {
  return {.cache = cache,
          .tokens = tree.tokens,
          .parents = tree.parents,
          .num_logit_rows = static_cast<int64_t>(tree.tokens.size())};
}

inline std::vector<int32_t> Chain(int64_t rows) {
  std::vector<int32_t> parents(rows);
  std::iota(parents.begin(), parents.end(), kPrefixParent);
  return parents;
}

inline Rows Copy(const LogitRows& logits) {
  Rows rows;
  for (int64_t row = 0; row < logits.num_rows(); ++row) {
    rows.emplace_back(logits.Row(row).begin(), logits.Row(row).end());
  }
  return rows;
}

// Every test runs on every architecture, on every implementation and, where
// that is ours, in every compute type.
struct Subject {
  const char* architecture;
  testing::TinyTensors (*write)(const std::string& folder, uint64_t seed);
  std::string backend;
  ComputeDType dtype = ComputeDType::kFloat32;
  std::string device = "cpu";
  std::optional<nn::KvType> kv_type = {};
  const char* prefix = "";  // of its cases' names
};

inline std::string NameOf(const Subject& subject) {
  std::string name =
      absl::StrCat(subject.prefix, subject.architecture, "_", subject.backend);
  if (subject.dtype != ComputeDType::kFloat32) {
    name += std::string("_") + NameOf(subject.dtype);
  }
  if (subject.kv_type) name += std::string("_kv_") + NameOf(*subject.kv_type);
  return name;
}

inline void PrintTo(const Subject& subject, std::ostream* out) {
  *out << NameOf(subject);
}

inline std::vector<Subject> SubjectsIn(absl::Span<const ComputeDType> dtypes) {
  std::vector<Subject> subjects;
  for (const std::string& backend : ModelBackends()) {
    for (ComputeDType dtype : dtypes) {
      if (backend != "native" && dtype != ComputeDType::kFloat32) continue;
      subjects.push_back({"Llama", testing::WriteTinyLlama, backend, dtype});
      subjects.push_back({"Qwen3", testing::WriteTinyQwen3, backend, dtype});
      subjects.push_back({"Gpt2", testing::WriteTinyGpt2, backend, dtype});
      subjects.push_back(
          {"Qwen3Moe", testing::WriteTinyQwen3Moe, backend, dtype});
      subjects.push_back({"Gemma3", testing::WriteTinyGemma3, backend, dtype});
      subjects.push_back({"Gemma2", testing::WriteTinyGemma2, backend, dtype});
      subjects.push_back(
          {"Mistral", testing::WriteTinyMistral, backend, dtype});
    }
  }
  return subjects;
}

// Returns the subjects of the CUDA backend, in the types that it has.
inline std::vector<Subject> CudaSubjects() {
  if (!testing::HasCudaTestDevice()) return {};
  std::vector<Subject> subjects;
  const char* const nightly = testing::NightlyWhereEmulated();
  const auto add = [&](const char* name, auto* write, ComputeDType dtype,
                       const char* prefix) {
    subjects.push_back({.architecture = name,
                        .write = write,
                        .backend = "cuda",
                        .dtype = dtype,
                        .device = testing::CudaTestDevice(),
                        .prefix = prefix});
  };
  if (!testing::kCudaTestsAreSlow) {
    add("Llama", testing::WriteWideLlama, ComputeDType::kBFloat16, nightly);
  }
  add("Qwen3", testing::WriteWideQwen3, ComputeDType::kBFloat16, nightly);
  add("Qwen3", testing::WriteWideQwen3, ComputeDType::kFp8, "");
  add("Mistral", testing::WriteWideMistral, ComputeDType::kBFloat16, nightly);
  add("Gemma3", testing::WriteWideGemma3, ComputeDType::kBFloat16, "");
  add("Qwen3Moe", testing::WriteWideQwen3Moe, ComputeDType::kBFloat16, "");
  return subjects;
}

// Whose K/V cache is of int8.
inline std::vector<Subject> Int8KvSubjects() {
  constexpr ComputeDType kType[] = {ComputeDType::kInt8};
  std::vector<Subject> subjects = SubjectsIn(kType);
  std::erase_if(subjects,
                [](const Subject& s) { return s.backend != "native"; });
  for (Subject& subject : subjects) subject.kv_type = nn::KvType::kInt8;
  return subjects;
}

inline std::vector<Subject> AllSubjects() {
  std::vector<Subject> subjects = SubjectsIn(kNativeComputeDTypes);
  for (Subject& subject : Int8KvSubjects()) {
    subjects.push_back(std::move(subject));
  }
  for (Subject& subject : CudaSubjects()) {
    subjects.push_back(std::move(subject));
  }
  return subjects;
}

inline std::string SubjectName(const ::testing::TestParamInfo<Subject>& info) {
  return NameOf(info.param);
}

// A tiny model of the subject, loaded.
class LanguageModelTest : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    folder_ =
        ::testing::TempDir() + "/language_model_test_" + NameOf(GetParam());
    tensors_ = GetParam().write(folder_, /*seed=*/1);
    model_ = Load({.folder = folder_, .threads = 1});
  }

  std::unique_ptr<LanguageModel> Load(ModelOptions options) {
    options.backend = GetParam().backend;
    options.device = GetParam().device;
    if (GetParam().backend == "cuda" && options.kv_pool_bytes == 0) {
      options.kv_pool_bytes = 8 << 20;  // the whole is allocated at once
    }
    if (options.compute_dtype == ComputeDType::kFloat32) {
      options.compute_dtype = GetParam().dtype;
    }
    options.kv_cache_type = GetParam().kv_type;
    auto model = LoadModel(options);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

  // Returns whether a row takes milliseconds.
  static bool is_emulated() { return GetParam().device == "emulated"; }

  CacheId Started(LanguageModel& model, const std::vector<TokenId>& tokens,
                  int64_t chunk = 256) {
    const CacheId cache = model.NewSequence();
    const int64_t most = std::min(chunk, model.info().max_rows);
    EXPECT_TRUE(Prefill(model, cache, tokens, most).ok());
    return cache;
  }
  CacheId Started(const std::vector<TokenId>& tokens) {
    return Started(*model_, tokens);
  }

  Rows Forward(const std::vector<SequenceRows>& batch) {
    auto logits = model_->Forward(batch);
    EXPECT_TRUE(logits.ok()) << logits.status();
    return Copy(**logits);
  }

  static constexpr int32_t kAllTaps[] = {0, 1, 2, 3};  // of two layers

  // [path][taps * hidden] of the sequence's last pass, which it keeps.
  Rows KeepFeatures(CacheId cache, const std::vector<int32_t>& path,
                    int64_t taps = 4) {
    const size_t width = taps * model_->info().config.hidden_size;
    std::vector<uint16_t> bits(path.size() * width, 0xFFFF);
    EXPECT_TRUE(model_->Keep(cache, path, absl::MakeSpan(bits)).ok());
    Rows features;
    for (size_t i = 0; i < path.size(); ++i) {
      std::vector<float>& row = features.emplace_back(width);
      std::transform(&bits[i * width], &bits[i * width] + width, row.begin(),
                     Bf16ToFloat);
    }
    return features;
  }

  // Returns the features of a pass that leaves no trace.
  Rows Features(SequenceRows rows, const std::vector<int32_t>& path,
                absl::Span<const int32_t> taps = kAllTaps,
                std::vector<SequenceRows> company = {}) {
    rows.taps = taps;
    company.push_back(rows);
    Forward(company);
    const int64_t length = model_->Length(rows.cache);
    Rows features = KeepFeatures(rows.cache, path, std::ssize(taps));
    model_->Truncate(rows.cache, length);
    return features;
  }

  // Cuts the sequence of this text back, or continues it, and computes what it
  // lacks.
  void GoTo(CacheId cache, absl::Span<const TokenId> text, int64_t length) {
    model_->Truncate(cache, std::min(length, model_->Length(cache)));
    const int64_t left = model_->Length(cache);
    if (left == length) return;
    const auto missing = text.subspan(left, length - left);
    EXPECT_TRUE(Prefill(*model_, cache, missing, 7).ok());
  }

  // Decodes `tokens` one by one; the features of the last.
  std::vector<float> DecodeFeatures(CacheId cache,
                                    const std::vector<TokenId>& tokens) {
    Rows rows;
    for (TokenId token : tokens) {
      const Tree one{.tokens = {token}, .parents = {kPrefixParent}};
      SequenceRows pass = AllRows(cache, one);
      pass.taps = kAllTaps;
      Forward({pass});
      rows = KeepFeatures(cache, {0});
    }
    return rows.at(0);
  }

  // Decodes `tokens` one by one; the logits of the last.
  std::vector<float> Decode(CacheId cache, const std::vector<TokenId>& tokens) {
    Rows rows;
    for (TokenId token : tokens) {
      const Tree one{.tokens = {token}, .parents = {kPrefixParent}};
      rows = Forward({AllRows(cache, one)});
      EXPECT_TRUE(model_->Keep(cache, {0}, {}).ok());
    }
    return rows.at(0);
  }

  // Bit for bit; for libtorch see same_rows.h.
  static bool Same(const std::vector<float>& a, const std::vector<float>& b) {
    return GetParam().backend == "aten" ? testing::SameRows(a, b) : a == b;
  }
  static bool Same(const Rows& a, const Rows& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const auto& x, const auto& y) { return Same(x, y); });
  }

  std::string folder_;
  testing::TinyTensors tensors_;
  std::unique_ptr<LanguageModel> model_;
};

// In float32 only.
class ExactLanguageModelTest : public LanguageModelTest {};

}  // namespace espalier

#endif  // ESPALIER_TESTS_COMMON_MODEL_LANGUAGE_MODEL_FIXTURE_H_
