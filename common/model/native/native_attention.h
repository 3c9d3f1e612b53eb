#ifndef ESPALIER_COMMON_MODEL_NATIVE_NATIVE_ATTENTION_H_
#define ESPALIER_COMMON_MODEL_NATIVE_NATIVE_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/model/files/model_config.h"
#include "common/model/native/native_pass.h"
#include "common/model/native/native_weights.h"
#include "common/nn/kernels.h"
#include "common/nn/thread_pool.h"

namespace espalier {

// Attention of all sequences of a pass, layer by layer: normalizes and rotates
// queries and keys, fills the caches, attends. Rotary angles, the split into
// tasks and what rows see are computed once per pass. One thread, the
// engine's.
class NativeAttention {
 public:
  // The references must outlive this object.
  NativeAttention(const ModelConfig& config, nn::KvType kv_type,
                  const nn::Kernels& kernels, nn::ThreadPool& pool);

  // Starts a pass, which must not change until its last layer. Results go to
  // `out`: [rows, heads * head_dim].
  void Begin(const NativePass& pass, float* out);

  // Called for heads of a row whose results are there, on any thread.
  using Consumer =
      absl::FunctionRef<void(int64_t row, int64_t first_head, int64_t heads)>;

  // qkv: [rows, (heads + 2 kv_heads) * head_dim], as layer.qkv gives them;
  // norms over all heads are done.
  void Run(int64_t index, const NativeLayer& layer, const float* qkv,
           Consumer consume);

  // Only fills the caches; does not read the queries in `qkv`.
  void FillCaches(int64_t index, const NativeLayer& layer, const float* qkv);

 private:
  // Queries of one sequence and K/V head that attend together.
  struct Task {
    const NativePass::Sequence* sequence = nullptr;
    int64_t kv_head = 0;
    int64_t first_query = 0;  // of queries_ and a view's queries
    int64_t num_queries = 0;
    int64_t first_of_head = 0;  // query of the sequence and K/V head
  };

  // Holds what the layers see that see alike. Positions before a task's first
  // page are none of its business: its prefix begins there.
  struct View {
    int64_t window = 0;  // 0: everything
    bool back_only = false;
    int64_t layer = 0;  // one of the layers
    std::vector<nn::AttendQuery> queries = {};
    std::vector<int64_t> first_page = {};  // by task
    bool is_shared = false;                // threads share its tasks
  };

  // The angles of one rotary table.
  struct Table {
    std::vector<double> frequencies;  // [head_dim / 2]
    double scale = 1;
    std::vector<float> cos = {};  // [rows of the pass, head_dim / 2]
    std::vector<float> sin = {};
  };

  const View& ViewOf(int64_t layer) const {
    return views_[view_of_layer_[layer]];
  }
  void AddSequence(const NativePass::Sequence& sequence, float* out);
  void AddQueries(const NativePass::Sequence& sequence, int64_t kv_head,
                  float* out, View& view) const;
  void CutPages(View& view) const;
  bool IsWorthSharing(const View& view) const;
  void ReserveScratch();
  int64_t TaskSize(int64_t queries, int64_t group) const;
  void MakeAngles(const NativePass& pass);
  void CacheRow(int64_t index, const NativeLayer& layer,
                const NativePass::Sequence& sequence, int64_t row,
                int64_t kv_head, const float* qkv);
  // Starts to load what the rows of a task will be written to.
  void FetchRowsOf(int64_t index, const Task& task) const;
  // Fills the caches with what a task alone attends to.
  void CacheRowsOf(int64_t index, const NativeLayer& layer, const Task& task,
                   const float* qkv);
  // Fills queries, and caches that the task alone fills.
  void Prepare(int64_t index, const NativeLayer& layer, const Task& task,
               const float* qkv);
  // A task is one thread's work, or threads share its steps.
  void RunTasks(int64_t index, const NativeLayer& layer, const float* qkv,
                Consumer consume);
  void RunSteps(int64_t index, const NativeLayer& layer, const float* qkv,
                Consumer consume);
  // A step of all tasks, each in some parts.
  void RunStep(int64_t index, nn::AttendStep step, int64_t parts);
  // body(index, thread), for indices 0 .. size - 1.
  template <typename Body>
  void ForEach(int64_t size, Body body);
  void Attend(nn::AttendArgs args, std::vector<float>& scratch, int64_t thread);
  void Consume(const Task& task, Consumer consume) const;
  void PrepareQueries(int64_t index, const NativeLayer& layer, const Task& task,
                      const float* qkv);
  void PrepareHead(int64_t layer, const NativeNorm& norm,
                   nn::RotateArgs args) const;
  nn::AttendArgs ArgsOf(int64_t layer, int64_t index) const;  // of a task
  nn::RotateArgs Rotation(int64_t layer, int64_t row) const;

  const std::vector<LayerShape>& layers_;
  const int64_t heads_;
  const int64_t kv_heads_;
  const int64_t head_dim_;
  const float norm_epsilon_;
  const KvPageShape page_shape_;
  const nn::Kernels& kernels_;
  nn::ThreadPool& pool_;

  // State of the pass in progress.
  const NativePass* pass_ = nullptr;
  int64_t queries_per_task_ = 1;
  std::vector<Table> tables_;
  std::vector<View> views_;
  std::vector<size_t> view_of_layer_;
  // By sequence, K/V head, row and then head of the K/V head's group.
  std::vector<float> queries_;  // [rows * heads, head_dim]
  std::vector<Task> tasks_;
  bool one_task_per_head_ = false;                  // of each sequence
  std::vector<std::vector<float>> scratch_;         // by thread
  std::vector<std::vector<float>> panels_;          // by thread
  std::vector<std::vector<float>> shared_scratch_;  // by task
  std::vector<float> keys_;  // [rows, kv_heads * head_dim], rotated
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_NATIVE_ATTENTION_H_
