// Sequences with trees of random rows, what the device needs of them, and their
// attention in float64.
#ifndef ESPALIER_TESTS_COMMON_CUDA_ATTENTION_PROBLEM_H_
#define ESPALIER_TESTS_COMMON_CUDA_ATTENTION_PROBLEM_H_

#include <algorithm>
#include <vector>

#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {

// [kv_heads, head_dim] of a position.
struct KeyValue {
  std::vector<uint16_t> key, value;
};

struct AttentionSequence {
  std::vector<KeyValue> prefix;
  std::vector<KeyValue> rows;
  std::vector<std::vector<uint16_t>> queries;  // [rows][heads, head_dim]
  std::vector<int> parents;                    // -1: of the prefix

  std::vector<int> PathTo(int row) const {
    std::vector<int> path;
    for (; row >= 0; row = parents[row]) path.insert(path.begin(), row);
    return path;
  }
};

struct AttentionShape {
  int kv_heads = 1, group = 1, head_dim = 64;
  int window = 0;  // 0: none

  int heads() const { return kv_heads * group; }
};

inline AttentionSequence RandomSequence(const AttentionShape& shape, int prefix,
                                        std::vector<int> parents,
                                        Random& random) {
  const auto kv = [&] {
    const int size = shape.kv_heads * shape.head_dim;
    return KeyValue{random.Bf16s(size), random.Bf16s(size)};
  };
  AttentionSequence sequence;
  for (int i = 0; i < prefix; ++i) sequence.prefix.push_back(kv());
  for (size_t i = 0; i < parents.size(); ++i) {
    sequence.rows.push_back(kv());
    sequence.queries.push_back(random.Bf16s(shape.heads() * shape.head_dim));
  }
  sequence.parents = std::move(parents);
  return sequence;
}

// Returns a tree of chains and branches, some of which start at the prefix.
inline std::vector<int> RandomTree(int rows, Random& random) {
  std::vector<int> parents(rows, -1);
  for (int i = 1; i < rows; ++i) {
    parents[i] =
        random.Below(3) > 0 ? i - 1 : static_cast<int>(random.Below(i + 1)) - 1;
  }
  return parents;
}
inline std::vector<int> Chain(int rows) {
  std::vector<int> parents(rows);
  for (int i = 0; i < rows; ++i) parents[i] = i - 1;
  return parents;
}

// Returns the row alone, after the prefix and the rest of its path.
inline AttentionSequence Decoded(const AttentionSequence& sequence, int row) {
  AttentionSequence alone = {.prefix = sequence.prefix};
  const std::vector<int> path = sequence.PathTo(row);
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    alone.prefix.push_back(sequence.rows[path[i]]);
  }
  alone.rows = {sequence.rows[row]};
  alone.queries = {sequence.queries[row]};
  alone.parents = {-1};
  return alone;
}

// By which kernel chains are attended to.
enum class Chains : int { kAsTrees, kAsChains };

// A pass of some sequences, as arrays for the device. Pages lie in disorder;
// what nobody has written is NaN.
class AttentionPass {
 public:
  AttentionPass(const AttentionShape& shape,
                const std::vector<AttentionSequence>& sequences,
                Chains chains = Chains::kAsTrees)
      : shape_(shape), chains_(chains) {
    for (const AttentionSequence& sequence : sequences) Add(sequence);
    std::vector<unsigned char> disordered(pages_.size(), 0xff);
    const int pages = static_cast<int>(page_table_.size());
    const int64_t bytes = page_bytes();
    for (int& page : page_table_) {
      const int to = (page * 7 + 3) % (pages % 7 == 0 ? 1 : pages);
      const int target = pages % 7 == 0 ? pages - 1 - page : to;
      std::memcpy(&disordered[target * bytes], &pages_[page * bytes], bytes);
      page = target;
    }
    pages_ = std::move(disordered);
  }

  int rows() const { return static_cast<int>(rows_.size()); }
  int64_t page_bytes() const {
    return PanelOffset(shape_.head_dim, shape_.kv_heads, 1, 0, 0);
  }

  // The pass in a device's memory. What attention writes is NaN at first.
  struct OnDevice {
    DeviceArray<uint16_t> queries, paths;
    DeviceArray<unsigned char> pages, out;
    DeviceArray<int32_t> table;
    DeviceArray<PassRow> rows;
    DeviceArray<PassSequence> sequences;
    DeviceArray<PrefixItem> prefix_items;
    DeviceArray<TreeItem> tree_items;
    DeviceArray<ChainItem> chain_items;
    DeviceArray<float> states;
    AttendArgs args = {};
  };
  OnDevice PutOn(ComputeDevice& device) const {
    const int columns = shape_.heads() * shape_.head_dim;
    OnDevice there = {
        .queries = ArrayOf(device, queries_),
        .paths = ArrayOf(device, paths_),
        .pages = ArrayOf(device, pages_),
        .out = NanArray<unsigned char>(
            device, static_cast<int64_t>(ActivationBytes(rows(), columns))),
        .table = ArrayOf(device, page_table_),
        .rows = ArrayOf(device, rows_),
        .sequences = ArrayOf(device, sequences_),
        .prefix_items = ArrayOf(device, prefix_items_),
        .tree_items = ArrayOf(device, tree_items_),
        .chain_items = ArrayOf(device, chain_items_),
        .states = NanArray<float>(device, states_ * (shape_.head_dim + 2))};
    there.args = {.queries = there.queries.data(),
                  .kv = {there.pages.data(), page_bytes(), there.table.data()},
                  .rows = there.rows.data(),
                  .sequences = there.sequences.data(),
                  .paths = there.paths.data(),
                  .prefix_items = there.prefix_items.data(),
                  .tree_items = there.tree_items.data(),
                  .chain_items = there.chain_items.data(),
                  .num_prefix_items = static_cast<int>(prefix_items_.size()),
                  .num_tree_items = static_cast<int>(tree_items_.size()),
                  .num_chain_items = static_cast<int>(chain_items_.size()),
                  .tree_pages = tree_pages_,
                  .kv_heads = shape_.kv_heads,
                  .group = shape_.group,
                  .head_dim = shape_.head_dim,
                  .scale = AttendScale(shape_.head_dim),
                  .window = shape_.window,
                  .states = there.states.data(),
                  .out = there.out.data(),
                  .out_block = RowBlock(rows())};
    return there;
  }

  // The work of a chain that attends.
  std::vector<PrefixItem> LayerPrefixItems() const {
    std::vector<PrefixItem> items;
    for (const PrefixItem& item : prefix_items_) {
      if (item.first_query > 0) continue;  // the first one of a chunk
      const int queries = sequences_[item.sequence].rows * shape_.group;
      for (int q = 0; q < queries; q += kLayerItemQueries) {
        items.push_back({item.sequence, item.chunk, q});
      }
    }
    return items;
  }
  std::vector<TreeItem> LayerTreeItems() const {
    std::vector<TreeItem> items;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      for (int row = 0; row < sequences_[i].rows; row += kLayerItemRows) {
        items.push_back({static_cast<int>(i), row});
      }
    }
    return items;
  }

  // [rows, heads * head_dim], rounded.
  std::vector<float> Attend(ComputeDevice& device) const {
    const OnDevice there = PutOn(device);
    const int columns = shape_.heads() * shape_.head_dim;
    device.Launch(there.args);
    const std::vector<unsigned char> packed = ValuesOf(device, there.out);
    std::vector<float> values(int64_t{rows()} * columns);
    for (int row = 0; row < rows(); ++row) {
      for (int i = 0; i < columns; ++i) {
        values[int64_t{row} * columns + i] =
            Bf16ToFloat(ActivationAt(packed, rows(), columns, row, i));
      }
    }
    return values;
  }

 private:
  void Add(const AttentionSequence& sequence) {
    const int index = static_cast<int>(sequences_.size());
    const int prefix = static_cast<int>(sequence.prefix.size());
    const int rows = static_cast<int>(sequence.rows.size());
    const int pages = (prefix + rows + kPagePositions - 1) / kPagePositions;
    sequences_.push_back({.prefix = prefix,
                          .first_row = this->rows(),
                          .rows = rows,
                          .table_begin = static_cast<int>(page_table_.size()),
                          .states_begin = states_});
    for (int i = 0; i < pages; ++i) {
      page_table_.push_back(static_cast<int>(page_table_.size()));
      pages_.resize(pages_.size() + page_bytes(), 0xff);
    }
    // Pages before the window have been given back.
    for (int i = FirstPage(prefix) * kPagePositions; i < prefix; ++i) {
      Write(i, sequence.prefix[i]);
    }
    for (int row = 0; row < rows; ++row) {
      Write(prefix + row, sequence.rows[row]);
      const std::vector<int> path = sequence.PathTo(row);
      rows_.push_back({.sequence = index,
                       .position = prefix + static_cast<int>(path.size()) - 1,
                       .slot = prefix + row,
                       .path_begin = static_cast<int>(paths_.size())});
      paths_.insert(paths_.end(), path.begin(), path.end());
      queries_.insert(queries_.end(), sequence.queries[row].begin(),
                      sequence.queries[row].end());
    }
    AddItems(index, sequence.parents == Chain(rows));
  }

  void Write(int slot, const KeyValue& kv) {
    const int dim = shape_.head_dim;
    const int64_t page =
        (sequences_.back().table_begin + slot / kPagePositions) * page_bytes();
    for (int head = 0; head < shape_.kv_heads; ++head) {
      for (int v = 0; v < 2; ++v) {
        unsigned char* const panel =
            &pages_[page + PanelOffset(dim, shape_.kv_heads, 0, head, v)];
        const uint16_t* const from =
            (v ? kv.value : kv.key).data() + head * dim;
        for (int piece = 0; piece < dim / 8; ++piece) {
          std::memcpy(panel + PanelPlace(dim, slot % kPagePositions, piece),
                      from + 8 * piece, 16);
        }
      }
    }
  }

  // Returns the first page that a row at this position sees.
  int FirstPage(int position) const {
    return shape_.window == 0 ? 0 : FirstSeenPage(position, shape_.window);
  }

  void AddItems(int index, bool is_chain) {
    const PassSequence& sequence = sequences_[index];
    const int whole = sequence.prefix / kPagePositions;
    const int chunks = whole == 0 ? 0 : ChunkOf(whole - 1) + 1;
    const int queries = sequence.rows * shape_.group;
    const int seen = FirstPage(sequence.prefix);
    for (int chunk = ChunkOf(seen); seen < whole && chunk < chunks; ++chunk) {
      for (int q = 0; q < queries; q += kPrefixItemQueries) {
        prefix_items_.push_back({index, chunk, q});
      }
    }
    states_ += int64_t{chunks} * shape_.kv_heads * queries;
    if (is_chain && chains_ == Chains::kAsChains) {
      for (int q = 0; q < queries; q += kChainItemQueries) {
        chain_items_.push_back({index, q});
      }
      return;
    }
    for (int row = 0; row < sequence.rows; row += kTreeItemRows) {
      tree_items_.push_back({index, row});
    }
    const int last = (sequence.prefix + sequence.rows - 1) / kPagePositions;
    tree_pages_ = std::max(tree_pages_, last - whole + 1);
  }

  const AttentionShape shape_;
  const Chains chains_;
  std::vector<PassSequence> sequences_;
  std::vector<PassRow> rows_;
  std::vector<uint16_t> paths_, queries_;
  std::vector<int32_t> page_table_;
  std::vector<unsigned char> pages_;
  std::vector<PrefixItem> prefix_items_;
  std::vector<TreeItem> tree_items_;
  std::vector<ChainItem> chain_items_;
  int tree_pages_ = 0;
  int64_t states_ = 0;
};

// [heads * head_dim] of a row, in float64.
inline std::vector<double> ExactAttention(const AttentionShape& shape,
                                          const AttentionSequence& sequence,
                                          int row) {
  const AttentionSequence alone = Decoded(sequence, row);
  std::vector<const KeyValue*> seen;
  for (const KeyValue& kv : alone.prefix) seen.push_back(&kv);
  seen.push_back(&alone.rows[0]);
  if (shape.window > 0 && std::ssize(seen) > shape.window) {
    seen.erase(seen.begin(), seen.end() - shape.window);
  }
  const int dim = shape.head_dim;
  std::vector<double> out(shape.heads() * dim);
  for (int head = 0; head < shape.heads(); ++head) {
    const int at = head / shape.group * dim;
    std::vector<double> weights;
    for (const KeyValue* kv : seen) {
      double score = 0;
      for (int i = 0; i < dim; ++i) {
        score += double{Bf16ToFloat(alone.queries[0][head * dim + i])} *
                 Bf16ToFloat(kv->key[at + i]);
      }
      weights.push_back(score / std::sqrt(double(dim)));
    }
    const double most = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - most);
    for (size_t k = 0; k < seen.size(); ++k) {
      for (int i = 0; i < dim; ++i) {
        out[head * dim + i] +=
            weights[k] / sum * Bf16ToFloat(seen[k]->value[at + i]);
      }
    }
  }
  return out;
}

}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_COMMON_CUDA_ATTENTION_PROBLEM_H_
