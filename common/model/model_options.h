#ifndef ESPALIER_COMMON_MODEL_MODEL_OPTIONS_H_
#define ESPALIER_COMMON_MODEL_MODEL_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/model/compute_dtype.h"
#include "common/nn/kv_type.h"

namespace espalier {

class FeatureRing;

// How a model is loaded (load/load_model.h).
struct ModelOptions {
  // config.json and model.safetensors (or its shards), or a GGUF file's path
  // (see GgufPathOf).
  std::string folder;
  // Random weights of this seed instead of files: `folder` needs config.json
  // only. Llama and Qwen.
  std::optional<uint64_t> random_weights = {};
  std::string device = "cpu";  // or "cuda", "cuda:1", "emulated"
  // nullopt: the native backend's AutoComputeType; float32 of aten; bfloat16 on
  // a GPU.
  std::optional<ComputeDType> compute_dtype = ComputeDType::kFloat32;
  int64_t threads = 0;  // of the CPU; 0: the cores that this process may use
  // Names what keys and values are rounded to. nullopt: float32 where products
  // are of float32, else bf16. Others than that: of the native backend alone.
  std::optional<nn::KvType> kv_cache_type = {};
  // 0: half of the memory that is available once the weights are loaded
  // (common/base/available_memory.h), allocated as needed; on a GPU nine tenths
  // of what the weights leave free, allocated at once.
  int64_t kv_pool_bytes = 0;
  // The most bytes of the pool that LanguageModel::Share may keep while no
  // sequence holds them. nullopt: a quarter of the pool.
  std::optional<int64_t> prefix_cache_bytes = {};
  // Tokens per sequence, at most what the pool holds; 0: the model's own limit.
  int64_t max_context = 0;
  int64_t max_rows = 256;  // per sequence and pass
  // A chain may have these, where the backend takes more rows of chains.
  int64_t max_chain_rows = 512;
  // One of ModelBackends(), "cuda", or "auto": cuda on a GPU; on a CPU native
  // if it supports the model and has better than portable kernels for this CPU,
  // else aten.
  std::string backend = "auto";
  std::string cpu_kernels = "auto";  // of the native one; see nn::FindBackend
  // The ring in which the cuda backend leaves features; on the model's device.
  // Null: it leaves none.
  std::shared_ptr<FeatureRing> feature_ring = nullptr;
  // Is true if the cuda backend makes graphs (see LaunchGraphs).
  bool cuda_graphs = false;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_MODEL_OPTIONS_H_
