#ifndef ESPALIER_COMMON_MODEL_NATIVE_NATIVE_ATTENTION_H_
#define ESPALIER_COMMON_MODEL_NATIVE_NATIVE_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "common/model/files/model_config.h"
#include "common/model/native/native_pass.h"
#include "common/model/native/native_weights.h"
#include "common/nn/kernels.h"
#include "common/nn/thread_pool.h"

namespace espalier {

// Attention of all sequences of a pass, layer by layer: normalizes and rotates
// queries and keys, fills the caches, attends. Rotary angles and the split into
// tasks are the same in every layer and computed once per pass. One thread, the
// engine's.
class NativeAttention {
 public:
  // `frequencies`: rotary, empty where positions are learned. The references
  // must outlive this object.
  NativeAttention(const ModelConfig& config,
                  const std::vector<double>& frequencies, nn::KvType kv_type,
                  const nn::Kernels& kernels, nn::ThreadPool& pool);

  // Starts a pass, which must not change until its last layer. Results go to
  // `out`: [rows, heads * head_dim].
  void Begin(const NativePass& pass, float* out);

  // qkv: [rows, (heads + 2 kv_heads) * head_dim], as layer.qkv gives them.
  void Run(int64_t index, const NativeLayer& layer, const float* qkv);

  // Only fills the caches; does not read the queries in `qkv`.
  void FillCaches(int64_t index, const NativeLayer& layer, const float* qkv);

 private:
  // Queries of one sequence and K/V head that attend together.
  struct Task {
    const NativePass::Sequence* sequence = nullptr;
    int64_t kv_head = 0;
    int64_t first_query = 0;  // of queries_ and attend_queries_
    int64_t num_queries = 0;
    int64_t first_of_head = 0;  // query of the sequence and K/V head
  };

  void AddSequence(const NativePass::Sequence& sequence, float* out);
  int64_t TaskSize(int64_t queries, int64_t group) const;
  void MakeAngles(const NativePass& pass);
  void CacheRow(int64_t index, const NativeLayer& layer,
                const NativePass::Sequence& sequence, int64_t row,
                int64_t kv_head, const float* qkv);
  void PrepareQueries(int64_t index, const NativeLayer& layer, const Task& task,
                      const float* qkv);
  void PrepareHead(const std::vector<float>& norm, nn::RotateArgs args) const;
  nn::AttendArgs ArgsOf(int64_t layer, const Task& task) const;
  nn::RotateArgs Rotation(int64_t layer, int64_t row) const;

  const int64_t heads_;
  const int64_t kv_heads_;
  const int64_t head_dim_;
  const float norm_epsilon_;
  const KvPageShape page_shape_;
  const std::vector<double>& frequencies_;
  const double rotary_scale_;
  const std::vector<bool> no_rope_;  // [layers], or empty
  const nn::Kernels& kernels_;
  nn::ThreadPool& pool_;

  // State of the pass in progress.
  const NativePass* pass_ = nullptr;
  int64_t queries_per_task_ = 1;
  std::vector<float> cos_;  // [rows, head_dim / 2]
  std::vector<float> sin_;
  // By sequence, K/V head, row and then head of the K/V head's group.
  std::vector<float> queries_;  // [rows * heads, head_dim]
  std::vector<nn::AttendQuery> attend_queries_;
  std::vector<Task> tasks_;
  std::vector<std::vector<float>> scratch_;  // by thread
  std::vector<float> keys_;  // [rows, kv_heads * head_dim], rotated
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_NATIVE_ATTENTION_H_
