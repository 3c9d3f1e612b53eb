#include "common/model/native/native_attention.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace espalier {
namespace {

constexpr int64_t kRowsWorthSharing = 8;  // fewer are not worth a wake-up
// A thread may attend to so many pages while others wait: the loops that share
// a layer's tasks take as long.
constexpr int64_t kPagesWorthSharing = 12;

// Part `index` of `parts` of a step, maybe an empty one.
nn::AttendPart PartOf(const nn::AttendArgs& args, nn::AttendStep step,
                      int64_t index, int64_t parts) {
  const int64_t unit = step == nn::AttendStep::kValues ? nn::kAttendDims : 1;
  const int64_t size = step == nn::AttendStep::kScores   ? AttendPages(args)
                       : step == nn::AttendStep::kValues ? args.head_dim
                                                         : args.num_queries;
  const int64_t units = (size + unit - 1) / unit;
  return {.step = step,
          .begin = std::min(units * index / parts * unit, size),
          .end = std::min(units * (index + 1) / parts * unit, size)};
}

}  // namespace

NativeAttention::NativeAttention(const ModelConfig& config, nn::KvType kv_type,
                                 const nn::Kernels& kernels,
                                 nn::ThreadPool& pool)
    : layers_(config.layers),
      heads_(config.num_heads),
      kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim),
      norm_epsilon_(static_cast<float>(config.norm_epsilon)),
      page_shape_(KvPageShape::Of(config, kv_type)),
      kernels_(kernels),
      pool_(pool),
      scratch_(pool.threads()),
      panels_(pool.threads()) {
  for (int32_t i = 0; i < std::ssize(config.rotary); ++i) {
    tables_.push_back({.frequencies = RotaryFrequencies(config, i),
                       .scale = RotaryScale(config, i)});
  }
  for (int64_t i = 0; i < std::ssize(layers_); ++i) {
    const LayerShape& layer = layers_[i];
    const auto found =
        std::find_if(views_.begin(), views_.end(), [&](const View& view) {
          return view.window == layer.window &&
                 view.back_only == layer.sees_back_only;
        });
    view_of_layer_.push_back(found - views_.begin());
    if (found == views_.end()) {
      views_.push_back({.window = layer.window,
                        .back_only = layer.sees_back_only,
                        .layer = i});
    }
  }
}

void NativeAttention::Begin(const NativePass& pass, float* out) {
  pass_ = &pass;
  const int64_t queries = pass.rows() * heads_;
  const int64_t share = queries / (kernels_.attend_calls * pool_.threads());
  queries_per_task_ =
      std::max(std::min(share, kernels_.attend_queries), heads_ / kv_heads_);
  queries_.resize(queries * head_dim_);
  keys_.resize(pass.rows() * kv_heads_ * head_dim_);
  for (View& view : views_) view.queries.clear();
  tasks_.clear();
  for (const NativePass::Sequence& sequence : pass.sequences) {
    AddSequence(sequence, out);
  }
  one_task_per_head_ =
      std::ssize(tasks_) == std::ssize(pass.sequences) * kv_heads_;
  for (View& view : views_) {
    CutPages(view);
    view.is_shared = IsWorthSharing(view);
  }
  ReserveScratch();
  MakeAngles(pass);
}

void NativeAttention::ReserveScratch() {
  int64_t scratch = 0, panels = 0;
  std::vector<int64_t> shared(tasks_.size());
  for (const View& view : views_) {
    for (int64_t task = 0; task < std::ssize(tasks_); ++task) {
      const nn::AttendArgs args = ArgsOf(view.layer, task);
      int64_t& most = view.is_shared ? shared[task] : scratch;
      most = std::max(most, AttendScratch(args));
      panels = std::max(panels, AttendPanels(args));
    }
  }
  for (std::vector<float>& memory : scratch_) memory.resize(scratch);
  for (std::vector<float>& memory : panels_) memory.resize(panels);
  shared_scratch_.resize(tasks_.size());
  for (size_t i = 0; i < tasks_.size(); ++i) {
    shared_scratch_[i].resize(shared[i]);
  }
}

void NativeAttention::AddQueries(const NativePass::Sequence& sequence,
                                 int64_t kv_head, float* out,
                                 View& view) const {
  const RowTree& tree = sequence.tree;
  const int64_t group = heads_ / kv_heads_;
  for (int64_t i = 0; i < sequence.rows() * group; ++i) {
    const int64_t row = i / group, head = kv_head * group + i % group;
    const int64_t in_tree = sequence.cached_rows + row;
    absl::Span<const int32_t> ancestors = tree.AncestorsOf(in_tree);
    if (view.back_only) {
      const auto end =
          std::upper_bound(ancestors.begin(), ancestors.end(), in_tree);
      ancestors = ancestors.first(end - ancestors.begin());
    }
    const int64_t before =
        view.window == 0
            ? 0
            : std::max<int64_t>(0, tree.positions[in_tree] - view.window + 1);
    view.queries.push_back(
        {.ancestors = ancestors.data(),
         .num_ancestors = static_cast<int64_t>(ancestors.size()),
         .first = before,
         .out =
             out + ((sequence.first_row + row) * heads_ + head) * head_dim_});
  }
}

void NativeAttention::AddSequence(const NativePass::Sequence& sequence,
                                  float* out) {
  const int64_t group = heads_ / kv_heads_;
  for (int64_t kv_head = 0; kv_head < kv_heads_; ++kv_head) {
    const int64_t first = std::ssize(views_.front().queries);
    for (View& view : views_) AddQueries(sequence, kv_head, out, view);
    const int64_t end = std::ssize(views_.front().queries);
    const int64_t size = TaskSize(end - first, group);
    for (int64_t i = first; i < end; i += size) {
      tasks_.push_back({.sequence = &sequence,
                        .kv_head = kv_head,
                        .first_query = i,
                        .num_queries = std::min(size, end - i),
                        .first_of_head = first});
    }
  }
}

// Whole pages of the prefix that no query of a task sees. To leave them out
// changes no bit: their weights would be zeros.
void NativeAttention::CutPages(View& view) const {
  view.first_page.assign(tasks_.size(), 0);
  if (view.window == 0) return;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const Task& task = tasks_[i];
    const auto queries = absl::MakeSpan(view.queries)
                             .subspan(task.first_query, task.num_queries);
    int64_t first = task.sequence->tree.prefix;
    for (const nn::AttendQuery& query : queries) {
      first = std::min(first, query.first);
    }
    view.first_page[i] = first / nn::kPageTokens;
    for (nn::AttendQuery& query : queries) {
      query.first -= view.first_page[i] * nn::kPageTokens;
    }
  }
}

// Where threads have not the same number of tasks, some wait for the others.
bool NativeAttention::IsWorthSharing(const View& view) const {
  if (!one_task_per_head_) return false;  // those are more even
  const int64_t tasks = std::ssize(tasks_), threads = pool_.threads();
  int64_t pages = 0;
  for (int64_t i = 0; i < tasks; ++i) {
    if (tasks_[i].num_queries > kernels_.attend_queries) return false;
    pages += AttendPages(ArgsOf(view.layer, i));
  }
  const int64_t most = (tasks + threads - 1) / threads;
  return most * pages / tasks - pages / threads >= kPagesWorthSharing;
}

// Tasks have one size, and consist of whole rows where they fit: the heads of a
// row that share a K/V head attend to the same positions.
int64_t NativeAttention::TaskSize(int64_t queries, int64_t group) const {
  const int64_t tasks = (queries + queries_per_task_ - 1) / queries_per_task_;
  const int64_t size = (queries + tasks - 1) / tasks;
  const int64_t whole_rows = (size + group - 1) / group * group;
  return whole_rows <= queries_per_task_ ? whole_rows : size;
}

void NativeAttention::MakeAngles(const NativePass& pass) {
  for (Table& table : tables_) {
    table.cos.clear();
    table.sin.clear();
    for (int64_t position : pass.positions) {
      for (double frequency : table.frequencies) {
        // float64: the angle of position 8000 needs more than 24 bits.
        const double angle = static_cast<double>(position) * frequency;
        table.cos.push_back(static_cast<float>(std::cos(angle) * table.scale));
        table.sin.push_back(static_cast<float>(std::sin(angle) * table.scale));
      }
    }
  }
}

void NativeAttention::Run(int64_t index, const NativeLayer& layer,
                          const float* qkv, Consumer consume) {
  if (!one_task_per_head_) FillCaches(index, layer, qkv);
  ViewOf(index).is_shared ? RunSteps(index, layer, qkv, consume)
                          : RunTasks(index, layer, qkv, consume);
}

template <typename Body>
void NativeAttention::ForEach(int64_t size, Body body) {
  pool_.ParallelFor(size, /*grain=*/1, [&](const nn::ThreadPool::Chunk& chunk) {
    for (int64_t i = chunk.begin; i < chunk.end; ++i) body(i, chunk.thread);
  });
}

void NativeAttention::RunTasks(int64_t index, const NativeLayer& layer,
                               const float* qkv, Consumer consume) {
  ForEach(std::ssize(tasks_), [&](int64_t i, int64_t thread) {
    Prepare(index, layer, tasks_[i], qkv);
    Attend(ArgsOf(index, i), scratch_[thread], thread);
    Consume(tasks_[i], consume);
  });
}

void NativeAttention::RunSteps(int64_t index, const NativeLayer& layer,
                               const float* qkv, Consumer consume) {
  ForEach(std::ssize(tasks_), [&](int64_t i, int64_t /*thread*/) {
    Prepare(index, layer, tasks_[i], qkv);
  });
  const int64_t queries = tasks_.front().num_queries;
  RunStep(index, nn::AttendStep::kQueries, queries);
  // Some for each thread, which may steal them.
  RunStep(index, nn::AttendStep::kScores, 2 * pool_.threads());
  RunStep(index, nn::AttendStep::kWeights, queries);
  RunStep(index, nn::AttendStep::kValues,
          (head_dim_ + nn::kAttendDims - 1) / nn::kAttendDims);
  ForEach(std::ssize(tasks_),
          [&](int64_t i, int64_t /*thread*/) { Consume(tasks_[i], consume); });
}

void NativeAttention::RunStep(int64_t index, nn::AttendStep step,
                              int64_t parts) {
  ForEach(std::ssize(tasks_) * parts, [&](int64_t i, int64_t thread) {
    nn::AttendArgs args = ArgsOf(index, i / parts);
    args.part = PartOf(args, step, i % parts, parts);
    Attend(args, shared_scratch_[i / parts], thread);
  });
}

void NativeAttention::Attend(nn::AttendArgs args, std::vector<float>& scratch,
                             int64_t thread) {
  args.scratch = scratch.data();
  args.panels = panels_[thread].data();
  kernels_.attend(args);
}

void NativeAttention::Prepare(int64_t index, const NativeLayer& layer,
                              const Task& task, const float* qkv) {
  if (one_task_per_head_) FetchRowsOf(index, task);
  PrepareQueries(index, layer, task, qkv);
  if (one_task_per_head_) CacheRowsOf(index, layer, task, qkv);
}

// The weights of a layer have put it out of the caches.
void NativeAttention::FetchRowsOf(int64_t index, const Task& task) const {
  constexpr int64_t kLineFloats = 16;
  const NativePass::Sequence& sequence = *task.sequence;
  const int64_t begin = sequence.cache->length() + sequence.cached_rows;
  const int64_t end = begin + sequence.rows();
  const int64_t size = nn::KvPanelFloats(page_shape_.type, head_dim_);
  const auto fetch = [size](const float* panel) {
    for (int64_t i = 0; i < size; i += kLineFloats) {
      __builtin_prefetch(panel + i, /*rw=*/1);
    }
  };
  for (int64_t page = begin / nn::kPageTokens; page * nn::kPageTokens < end;
       ++page) {
    const float* const floats = sequence.cache->pages(index)[page];
    fetch(floats + page_shape_.key_offset(index, task.kv_head));
    fetch(floats + page_shape_.value_offset(index, task.kv_head));
  }
}

void NativeAttention::CacheRowsOf(int64_t index, const NativeLayer& layer,
                                  const Task& task, const float* qkv) {
  for (int64_t row = 0; row < task.sequence->rows(); ++row) {
    CacheRow(index, layer, *task.sequence, row, task.kv_head, qkv);
  }
}

void NativeAttention::Consume(const Task& task, Consumer consume) const {
  const int64_t group = heads_ / kv_heads_;
  const int64_t begin = task.first_query - task.first_of_head;
  const int64_t end = begin + task.num_queries;
  for (int64_t query = begin; query < end;) {
    const int64_t row = query / group, first = query % group;
    const int64_t heads = std::min(group - first, end - query);
    consume(task.sequence->first_row + row, task.kv_head * group + first,
            heads);
    query += heads;
  }
}

// Keys and values of neighbours share cache lines, so one thread writes all
// those of a page.
void NativeAttention::FillCaches(int64_t index, const NativeLayer& layer,
                                 const float* qkv) {
  for (const NativePass::Sequence& sequence : pass_->sequences) {
    // Two positions of a page may share a word, so one thread writes a page.
    const int64_t begin = sequence.cache->length() + sequence.cached_rows;
    const int64_t first_page = begin / nn::kPageTokens;
    const int64_t pages =
        (begin + sequence.rows() - 1) / nn::kPageTokens - first_page + 1;
    const auto row_at = [&](int64_t page) {
      return std::clamp<int64_t>((first_page + page) * nn::kPageTokens - begin,
                                 0, sequence.rows());
    };
    const int64_t parts = kv_heads_ * pages;
    const int64_t grain = sequence.rows() < kRowsWorthSharing ? parts : 1;
    pool_.ParallelFor(parts, grain, [&](const nn::ThreadPool::Chunk& chunk) {
      for (int64_t i = chunk.begin; i < chunk.end; ++i) {
        const int64_t end = row_at(i / kv_heads_ + 1);
        for (int64_t row = row_at(i / kv_heads_); row < end; ++row) {
          CacheRow(index, layer, sequence, row, i % kv_heads_, qkv);
        }
      }
    });
  }
}

nn::RotateArgs NativeAttention::Rotation(int64_t layer, int64_t row) const {
  const int32_t rotary = layers_[layer].rotary;
  if (rotary == LayerShape::kNoRotation) return {.head_dim = head_dim_};
  const int64_t half = head_dim_ / 2;
  return {.head_dim = head_dim_,
          .cos = tables_[rotary].cos.data() + row * half,
          .sin = tables_[rotary].sin.data() + row * half};
}

void NativeAttention::PrepareHead(int64_t layer, const NativeNorm& norm,
                                  nn::RotateArgs args) const {
  if (layers_[layer].head_norm == HeadNorm::kEachHead) {
    kernels_.normalize({.x = args.x,
                        .size = head_dim_,
                        .weight = norm.weight.data(),
                        .epsilon = norm_epsilon_,
                        .out = args.out});
    args.x = args.out;
  }
  kernels_.rotate(args);
}

void NativeAttention::CacheRow(int64_t index, const NativeLayer& layer,
                               const NativePass::Sequence& sequence,
                               int64_t row, int64_t kv_head, const float* qkv) {
  const int64_t pass_row = sequence.first_row + row;
  const float* k =
      qkv +
      (pass_row * (heads_ + 2 * kv_heads_) + heads_ + kv_head) * head_dim_;
  nn::RotateArgs rotation = Rotation(index, pass_row);
  rotation.x = k;
  rotation.out = &keys_[(pass_row * kv_heads_ + kv_head) * head_dim_];
  PrepareHead(index, layer.k_norm, rotation);
  sequence.cache->WriteRow(
      index, kv_head, sequence.cached_rows + row,
      {.key = rotation.out, .value = k + kv_heads_ * head_dim_});
}

void NativeAttention::PrepareQueries(int64_t index, const NativeLayer& layer,
                                     const Task& task, const float* qkv) {
  const int64_t group = heads_ / kv_heads_;
  const double scalar = layers_[index].query_scalar > 0
                            ? layers_[index].query_scalar
                            : static_cast<double>(head_dim_);
  for (int64_t i = task.first_query; i < task.first_query + task.num_queries;
       ++i) {
    const int64_t of_head = i - task.first_of_head;
    const int64_t row = task.sequence->first_row + of_head / group;
    const int64_t head = task.kv_head * group + of_head % group;
    nn::RotateArgs rotation = Rotation(index, row);
    rotation.scale = 1.0f / std::sqrt(static_cast<float>(scalar));
    rotation.x = qkv + (row * (heads_ + 2 * kv_heads_) + head) * head_dim_;
    rotation.out = &queries_[i * head_dim_];
    PrepareHead(index, layer.q_norm, rotation);
  }
}

nn::AttendArgs NativeAttention::ArgsOf(int64_t layer, int64_t index) const {
  const Task& task = tasks_[index];
  const RowTree& tree = task.sequence->tree;
  const View& view = ViewOf(layer);
  const int64_t first_page = view.first_page[index];
  return {.type = page_shape_.type,
          .queries = &queries_[task.first_query * head_dim_],
          .query = &view.queries[task.first_query],
          .num_queries = task.num_queries,
          .head_dim = head_dim_,
          .prefix = tree.prefix - first_page * nn::kPageTokens,
          .rows = tree.rows(),
          .softcap = static_cast<float>(layers_[layer].score_softcap),
          .pages = task.sequence->cache->pages(layer) + first_page,
          .key_offset = page_shape_.key_offset(layer, task.kv_head),
          .value_offset = page_shape_.value_offset(layer, task.kv_head)};
}

}  // namespace espalier
