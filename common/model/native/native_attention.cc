#include "common/model/native/native_attention.h"

#include <algorithm>
#include <cmath>

namespace espalier {
namespace {

constexpr int64_t kRowsWorthSharing = 8;  // fewer are not worth a wake-up

}  // namespace

NativeAttention::NativeAttention(const ModelConfig& config,
                                 const std::vector<double>& frequencies,
                                 nn::KvType kv_type, const nn::Kernels& kernels,
                                 nn::ThreadPool& pool)
    : heads_(config.num_heads),
      kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim),
      norm_epsilon_(static_cast<float>(config.norm_epsilon)),
      page_shape_(KvPageShape::Of(config, kv_type)),
      frequencies_(frequencies),
      rotary_scale_(RotaryScale(config)),
      no_rope_(config.no_rope),
      kernels_(kernels),
      pool_(pool),
      scratch_(pool.threads()) {}

void NativeAttention::Begin(const NativePass& pass, float* out) {
  pass_ = &pass;
  const int64_t queries = pass.rows() * heads_;
  const int64_t share = queries / (kernels_.attend_calls * pool_.threads());
  queries_per_task_ =
      std::max(std::min(share, kernels_.attend_queries), heads_ / kv_heads_);
  queries_.resize(queries * head_dim_);
  keys_.resize(pass.rows() * kv_heads_ * head_dim_);
  attend_queries_.clear();
  tasks_.clear();
  for (const NativePass::Sequence& sequence : pass.sequences) {
    AddSequence(sequence, out);
  }
  size_t scratch = 0;
  for (const Task& task : tasks_) {
    const nn::AttendArgs args = ArgsOf(/*layer=*/0, task);
    scratch = std::max(scratch, static_cast<size_t>(AttendScratch(args)));
  }
  for (std::vector<float>& memory : scratch_) memory.resize(scratch);
  MakeAngles(pass);
}

void NativeAttention::AddSequence(const NativePass::Sequence& sequence,
                                  float* out) {
  const RowTree& tree = sequence.tree;
  const int64_t group = heads_ / kv_heads_;
  for (int64_t kv_head = 0; kv_head < kv_heads_; ++kv_head) {
    const int64_t first = static_cast<int64_t>(attend_queries_.size());
    for (int64_t i = 0; i < sequence.rows() * group; ++i) {
      const int64_t row = i / group, head = kv_head * group + i % group;
      const absl::Span<const int32_t> ancestors =
          tree.AncestorsOf(sequence.cached_rows + row);
      attend_queries_.push_back(
          {.ancestors = ancestors.data(),
           .num_ancestors = static_cast<int64_t>(ancestors.size()),
           .out =
               out + ((sequence.first_row + row) * heads_ + head) * head_dim_});
    }
    const int64_t end = static_cast<int64_t>(attend_queries_.size());
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

// Tasks have one size, and consist of whole rows where they fit: the heads of a
// row that share a K/V head attend to the same positions.
int64_t NativeAttention::TaskSize(int64_t queries, int64_t group) const {
  const int64_t tasks = (queries + queries_per_task_ - 1) / queries_per_task_;
  const int64_t size = (queries + tasks - 1) / tasks;
  const int64_t whole_rows = (size + group - 1) / group * group;
  return whole_rows <= queries_per_task_ ? whole_rows : size;
}

void NativeAttention::MakeAngles(const NativePass& pass) {
  cos_.clear();
  sin_.clear();
  for (int64_t position : pass.positions) {
    for (double frequency : frequencies_) {
      // float64: the angle of position 8000 needs more than 24 bits.
      const double angle = static_cast<double>(position) * frequency;
      cos_.push_back(static_cast<float>(std::cos(angle) * rotary_scale_));
      sin_.push_back(static_cast<float>(std::sin(angle) * rotary_scale_));
    }
  }
}

void NativeAttention::Run(int64_t index, const NativeLayer& layer,
                          const float* qkv) {
  FillCaches(index, layer, qkv);
  pool_.ParallelFor(static_cast<int64_t>(tasks_.size()), /*grain=*/1,
                    [&](const nn::ThreadPool::Chunk& chunk) {
                      for (int64_t i = chunk.begin; i < chunk.end; ++i) {
                        PrepareQueries(index, layer, tasks_[i], qkv);
                        nn::AttendArgs args = ArgsOf(index, tasks_[i]);
                        args.scratch = scratch_[chunk.thread].data();
                        kernels_.attend(args);
                      }
                    });
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
  if (frequencies_.empty() || (!no_rope_.empty() && no_rope_[layer])) {
    return {.head_dim = head_dim_};
  }
  const int64_t half = head_dim_ / 2;
  return {.head_dim = head_dim_,
          .cos = cos_.data() + row * half,
          .sin = sin_.data() + row * half};
}

void NativeAttention::PrepareHead(const std::vector<float>& norm,
                                  nn::RotateArgs args) const {
  if (!norm.empty()) {
    kernels_.normalize({.x = args.x,
                        .size = head_dim_,
                        .weight = norm.data(),
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
  PrepareHead(layer.k_norm, rotation);
  sequence.cache->WriteRow(
      index, kv_head, sequence.cached_rows + row,
      {.key = rotation.out, .value = k + kv_heads_ * head_dim_});
}

void NativeAttention::PrepareQueries(int64_t index, const NativeLayer& layer,
                                     const Task& task, const float* qkv) {
  const int64_t group = heads_ / kv_heads_;
  for (int64_t i = task.first_query; i < task.first_query + task.num_queries;
       ++i) {
    const int64_t of_head = i - task.first_of_head;
    const int64_t row = task.sequence->first_row + of_head / group;
    const int64_t head = task.kv_head * group + of_head % group;
    nn::RotateArgs rotation = Rotation(index, row);
    rotation.scale = 1.0f / std::sqrt(static_cast<float>(head_dim_));
    rotation.x = qkv + (row * (heads_ + 2 * kv_heads_) + head) * head_dim_;
    rotation.out = &queries_[i * head_dim_];
    PrepareHead(layer.q_norm, rotation);
  }
}

nn::AttendArgs NativeAttention::ArgsOf(int64_t layer, const Task& task) const {
  const RowTree& tree = task.sequence->tree;
  return {.type = page_shape_.type,
          .queries = &queries_[task.first_query * head_dim_],
          .query = &attend_queries_[task.first_query],
          .num_queries = task.num_queries,
          .head_dim = head_dim_,
          .prefix = tree.prefix,
          .rows = tree.rows(),
          .pages = task.sequence->cache->pages(),
          .key_offset = page_shape_.key_offset(layer, task.kv_head),
          .value_offset = page_shape_.value_offset(layer, task.kv_head)};
}

}  // namespace espalier
