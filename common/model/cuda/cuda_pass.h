#ifndef ESPALIER_COMMON_MODEL_CUDA_CUDA_PASS_H_
#define ESPALIER_COMMON_MODEL_CUDA_CUDA_PASS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "common/cuda/kernel_args.h"
#include "common/model/files/model_config.h"
#include "common/model/native/row_batch.h"

namespace espalier {

// One pass over the rows of some sequences, as the kernels are told of it.
class CudaPass {
 public:
  explicit CudaPass(const ModelConfig& config);

  // `tokens`: of the last rows of the tree, which are run; those before have
  // their K/V already. `tables`: the sequence's pages by group of layers,
  // enough for the prefix and the rows.
  void Add(absl::Span<const TokenId> tokens, const RowTree& tree,
           absl::Span<const absl::Span<const int32_t>> tables,
           int64_t num_logit_rows);
  // Adds rows that each see the prefix and all rows before them. Many of them
  // are a chain to attention (AttendsChain), which needs no paths.
  void AddChain(absl::Span<const TokenId> tokens, int64_t prefix,
                absl::Span<const absl::Span<const int32_t>> tables,
                int64_t num_logit_rows);

  // Drops the work of attention, for rows that attend to nothing.
  void ForgetAttention();

  // The work of trees as a chain that attends divides it (LayerChainArgs),
  // without windows.
  struct LayerItems {
    std::vector<cuda::PrefixItem> prefix;
    std::vector<cuda::TreeItem> tree;
  };
  LayerItems DivideForLayerChain() const;

  int num_rows() const { return static_cast<int>(rows.size()); }

  std::vector<int32_t> tokens;  // [rows]
  // [rows] for attention, and for rotation: the position of a row is that of
  // the last that it sees, and its own in the text. The two differ in blocks
  // and where features were lost.
  std::vector<cuda::PassRow> rows, rotated_rows;
  std::vector<cuda::PassSequence> sequences;
  std::vector<uint16_t> paths;                    // of trees
  std::vector<std::vector<int32_t>> page_tables;  // by group, of one length
  // The work over prefixes by window, ascending; 0 is no window.
  std::map<int64_t, std::vector<cuda::PrefixItem>> prefix_items;
  std::vector<cuda::TreeItem> tree_items;
  std::vector<cuda::ChainItem> chain_items;
  std::vector<int32_t> logit_rows;  // [rows] which row of logits, -1: none
  int num_logit_rows = 0;
  int tree_pages = 0;      // see AttendArgs
  int64_t num_states = 0;  // of all chunks and queries

 private:
  // `cached`: rows of the sequence that ran before.
  void AddSequence(absl::Span<const TokenId> tokens, int64_t prefix,
                   int32_t cached,
                   absl::Span<const absl::Span<const int32_t>> tables);
  // Adds a row of the last sequence, of whose last rows logits are wanted.
  // text_position: for its rotation.
  void AddRow(const cuda::PassRow& row, int64_t text_position,
              int64_t num_logit_rows);
  // `first`: row of the last sequence that is run.
  void AddTreeItems(int first);
  void AddChainItems();
  void AddPrefixItems(int first);
  void AddLayerItems(int32_t index, int first, LayerItems& items) const;
  int32_t last_sequence() const {
    return static_cast<int32_t>(sequences.size()) - 1;
  }

  const int kv_heads_;
  const int group_;
  const int head_dim_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_CUDA_PASS_H_
