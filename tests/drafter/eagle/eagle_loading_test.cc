// Heads that are refused, each with the reason, and the ways in which files
// count the target's layers.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/files/safetensors.h"
#include "drafter/drafters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/source_path.h"

namespace espalier::drafter::eagle_loading_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

const std::string kFixtures = SourcePath("tests/drafter/golden/fixtures/");
const std::string kTarget = kFixtures + "targets/tied";

struct Tensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

// A head of the golden tests, to be changed and written.
struct Head {
  Json config;
  std::map<std::string, Tensor> tensors;
};

Head GoldenHead(const std::string& name) {
  const std::string folder = kFixtures + name + "/head";
  Head head = {.config = Json::parse(std::ifstream(folder + "/config.json"))};
  const auto file = SafetensorsFile::Open(folder + "/model.safetensors");
  EXPECT_TRUE(file.ok()) << file.status();
  for (const auto& [tensor, view] : file->tensors()) {
    head.tensors[tensor] = {
        DTypeName(view.dtype), view.shape,
        std::string(reinterpret_cast<const char*>(view.data.data()),
                    view.data.size())};
  }
  return head;
}

void Write(const Head& head, const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << head.config;
  Json header;
  std::string data;
  for (const auto& [name, tensor] : head.tensors) {
    header[name] = {
        {"dtype", tensor.dtype},
        {"shape", tensor.shape},
        {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = header.dump();
  const uint64_t size = text.size();
  std::ofstream out(folder + "/model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof(size));
  out << text << data;
}

class EagleLoadingTest : public ::testing::Test {
 protected:
  ~EagleLoadingTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<std::unique_ptr<Drafter>> Load(const Head& head,
                                                uint64_t fingerprint = 0) {
    Write(head, folder_);
    return NewEagleDrafter({.options = {{"model", folder_}},
                            .target_folder = kTarget,
                            .vocab_size = 96,
                            .tokenizer_fingerprint = fingerprint});
  }

  std::string ErrorOf(const Head& head) {
    return std::string(Load(head).status().message());
  }

  std::vector<int32_t> TapsOf(const Head& head) {
    const auto drafter = Load(head);
    EXPECT_TRUE(drafter.ok()) << drafter.status();
    return drafter.ok() ? WantedFeatures(**drafter).taps
                        : std::vector<int32_t>();
  }

  const std::string folder_ =
      ::testing::TempDir() + "eagle_loading_" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

struct BadConfig {
  Json changes;  // null removes a field
  const char* problem;
};

TEST_F(EagleLoadingTest, ConfigurationsAreCheckedFieldByField) {
  const char* const kIds = "eagle_aux_hidden_state_layer_ids";
  const BadConfig cases[] = {
      {{{"vocab_size", 97}}, "vocab_size: is 97, the target's is 96"},
      {{{"hidden_size", nullptr}}, "hidden_size: is missing"},
      {{{"hidden_size", 64}, {"target_hidden_size", nullptr}},
       "hidden_size: is 64, the target's is 32"},
      {{{"target_hidden_size", 64}},
       "target_hidden_size: is 64, the target's is 32"},
      {{{"num_hidden_layers", 2}}, "a head of more than one layer"},
      {{{"num_key_value_heads", 3}}, "num_key_value_heads: must divide"},
      {{{"num_attention_heads", 7}, {"num_key_value_heads", 7}},
       "has no rows for 7 heads"},
      {{{"norm_before_fc", true}}, "fc_norm: excludes norm_before_fc"},
      {{{"num_attention_heads", 8}}, "makes heads of 4, not a multiple of 8"},
      {{{"draft_vocab_size", 41}}, "d2t has shape [40]"},
      {{{"draft_vocab_size", 0}}, "draft_vocab_size: must be an integer"},
      {{{"fc_norm", 1}}, "fc_norm: must be true or false"},
      {{{kIds, {1, 2, 9}}}, "must ascend to at most 8"},
      {{{kIds, {2, 1, 4}}}, "must ascend"},
      {{{kIds, {2, 2, 4}}}, "must ascend"},
      {{{kIds, {-1, 2, 4}}}, "[0]: must be an integer of 0"},
      {{{kIds, {1, 2}}}, "fc.weight has shape [32, 96]"},
      {{{"eagle_config", 3}, {kIds, nullptr}},
       "eagle_config: must be an object"},
      {{{"espalier", {{"tokenizer_fingerprint", 3}}}},
       "espalier.tokenizer_fingerprint: must be a string"},
      {{{"rope_scaling", {{"rope_type", "longrope"}, {"factor", 2}}}},
       "rope_type \"longrope\""},
      {{{"hidden_act", "gelu"}}, "hidden_act but silu"},
      {{{"use_sliding_window", true}}, "use_sliding_window true"},
      {{{"layer_types", {"sliding_attention"}}}, "sliding_window: is missing"},
      {{{"layer_types", {"chunked_attention"}}}, "chunked_attention"},
  };
  for (const BadConfig& bad : cases) {
    Head head = GoldenHead("eagle31_midlayer");
    head.config.merge_patch(bad.changes);
    const std::string error = ErrorOf(head);
    EXPECT_THAT(error, HasSubstr(bad.problem)) << bad.changes;
    EXPECT_THAT(error, HasSubstr("option model: ")) << bad.changes;
  }
}

TEST_F(EagleLoadingTest, TensorsAreCheckedByNameAndShape) {
  const Head good = GoldenHead("eagle31_midlayer");
  ASSERT_EQ(ErrorOf(good), "");
  for (const auto& [name, tensor] : good.tensors) {
    if (name == "t2d" || name == "lm_head.weight") continue;  // may be absent
    Head head = good;
    head.tensors.erase(name);
    // Without hidden_norm it looks like EAGLE-1, whose layer is narrower.
    const std::string missing = name == "midlayer.hidden_norm.weight"
                                    ? "q_proj.weight has shape [32, 64]"
                                    : name;
    EXPECT_THAT(ErrorOf(head), HasSubstr(missing));
  }
  for (const auto& [name, tensor] : good.tensors) {
    if (name == "t2d") continue;
    Head head = good;
    head.tensors[name].shape.push_back(1);
    EXPECT_THAT(ErrorOf(head), HasSubstr(name));
  }
  Head head = good;
  head.tensors["midlayer.extra.weight"] = good.tensors.at("norm.weight");
  EXPECT_THAT(ErrorOf(head), HasSubstr("tensor midlayer.extra.weight is not "
                                       "part of the layout"));
  head = good;
  head.tensors["norm.weight"].dtype = "I16";
  EXPECT_THAT(ErrorOf(head), HasSubstr("norm.weight has dtype I16"));
}

TEST_F(EagleLoadingTest, WhatOnlyTrainingReadsIsIgnored) {
  Head head = GoldenHead("eagle31_midlayer");
  head.tensors["verifier_norm.weight"] = head.tensors.at("norm.weight");
  head.tensors["verifier_lm_head.weight"] = head.tensors.at("norm.weight");
  EXPECT_EQ(ErrorOf(head), "");
}

TEST_F(EagleLoadingTest, AMapOutOfRangeIsRefused) {
  Head head = GoldenHead("eagle31_midlayer");
  head.tensors["d2t"].bytes[8 * 39] = 60;
  EXPECT_THAT(
      ErrorOf(head),
      HasSubstr(
          "d2t: entry 39 is 60, which leads out of the target's vocabulary"));
  head.tensors.erase("d2t");
  EXPECT_THAT(ErrorOf(head), HasSubstr("d2t is missing"));
}

// These are the same points of the residual stream, counted in three ways. A
// head that is fed one layer off still runs, but drafts badly.
TEST_F(EagleLoadingTest, LayersAreCountedAsTheFileCountsThem) {
  const char* const kIds = "eagle_aux_hidden_state_layer_ids";
  Head head = GoldenHead("eagle31_midlayer");
  head.config.erase("eagle_config");
  head.config.erase(kIds);
  EXPECT_THAT(TapsOf(head), ElementsAre(2, 4, 5));  // 2, L / 2, L - 3
}

TEST_F(EagleLoadingTest, OutputsOfLayersAreInputsOfTheNext) {
  const char* const kIds = "eagle_aux_hidden_state_layer_ids";
  Head head = GoldenHead("eagle31_midlayer");
  head.config.erase(kIds);
  head.config["eagle_config"] = {{kIds, {0, 2, 5}}};
  EXPECT_THAT(TapsOf(head), ElementsAre(1, 3, 6));
  head.config.erase("eagle_config");
  head.config[kIds] = {0, 2, 5};
  EXPECT_THAT(TapsOf(head), ElementsAre(0, 2, 5));
}

TEST_F(EagleLoadingTest, AnotherTokenizerIsRefused) {
  Head head = GoldenHead("eagle31_midlayer");
  head.config["espalier"] = {{"tokenizer_fingerprint", "00000000000000ab"}};
  EXPECT_TRUE(Load(head, 0xab).ok());
  EXPECT_TRUE(Load(head, 0).ok());  // not known
  EXPECT_THAT(
      Load(head, 0xcd).status().message(),
      HasSubstr(
          "espalier.tokenizer_fingerprint: is 00000000000000ab, the target's "
          "is 00000000000000cd"));
}

TEST_F(EagleLoadingTest, FoldersThatAreNoHeadsAreNamed) {
  auto error = [](std::map<std::string, std::string> options) {
    return std::string(NewEagleDrafter({.options = std::move(options),
                                        .target_folder = kTarget,
                                        .vocab_size = 96})
                           .status()
                           .message());
  };
  EXPECT_THAT(error({}), HasSubstr("option model: is required"));
  EXPECT_THAT(error({{"model", "/nowhere"}}), HasSubstr("/nowhere"));
  EXPECT_THAT(error({{"model", kTarget}}), HasSubstr("not an EAGLE head"));
  const std::string good = kFixtures + "eagle31_midlayer/head";
  EXPECT_THAT(error({{"model", good}, {"width", "0"}}),
              HasSubstr("option width"));
  EXPECT_THAT(error({{"model", good}, {"compute_type", "int2"}}),
              HasSubstr("option compute_type: \"int2\""));
  EXPECT_THAT(error({{"model", good}, {"cpu_kernels", "sse"}}),
              HasSubstr("option cpu_kernels"));
}

}  // namespace
}  // namespace espalier::drafter::eagle_loading_test
