// These plain structs say what each kernel is told. The code that launches
// kernels includes this and compute_device.h. All pointers are to device
// memory; sizes are numbers of elements unless they say bytes. Where things lie
// in memory: layout.h. Arguments are compared number by number, pointers as
// such.
#ifndef ESPALIER_COMMON_CUDA_KERNEL_ARGS_H_
#define ESPALIER_COMMON_CUDA_KERNEL_ARGS_H_

#include <cmath>
#include <cstdint>
#include <variant>

#include "common/cuda/layout.h"
#include "common/cuda/logit_args.h"
#include "common/cuda/mail_args.h"
#include "common/cuda/product_shape.h"

namespace espalier::cuda {

using bf16_t = uint16_t;  // bits

// A row of the pass: a token of a sequence's tree.
struct PassRow {
  int32_t sequence = 0;    // of the pass
  int32_t position = 0;    // of its token, in the text
  int32_t slot = 0;        // of its K/V: prefix + row of the sequence
  int32_t path_begin = 0;  // in `paths`
};
struct PassSequence {
  int32_t prefix = 0;  // cached positions
  int32_t first_row = 0;
  int32_t rows = 0;          // at most MostTreeRows, of a chain MostChainRows
  int32_t table_begin = 0;   // of its pages in the page table
  int64_t states_begin = 0;  // of its states, see AttendArgs
};
// Their pages have to fit into the shared memory of a multiprocessor.
ESPALIER_HOST_DEVICE constexpr int MostTreeRows(int head_dim) {
  return head_dim > 128 ? 128 : 256;
}
// Chains stream their pages, where they do not take the way of trees
// (AttendsChain): two of the largest blocks of rows of a product, which read
// its weights at the same time.
ESPALIER_HOST_DEVICE constexpr int MostChainRows(int head_dim) {
  return head_dim > 128 ? MostTreeRows(head_dim) : 2 * kMaxRowsOfBlock;
}

// A layer's K/V in the pages of all sequences.
struct KvPages {
  unsigned char* pages = nullptr;       // of this layer: page 0's first panel
  int64_t page_bytes = 0;               // from page to page, all layers
  const int32_t* page_table = nullptr;  // per sequence: page of each 64 slots
  bool operator==(const KvPages&) const = default;
};

// x[row] = row tokens[row] of an embedding table, times `scale`.
struct EmbedArgs {
  const unsigned char* table = nullptr;  // weights [vocab, hidden]
  const int32_t* tokens = nullptr;       // [rows]
  int rows = 0;
  int hidden = 0;  // a multiple of 64
  float scale = 1;
  float* x = nullptr;     // [rows, hidden]
  bf16_t* tap = nullptr;  // [rows, hidden] the same rounded, or null
  bool operator==(const EmbedArgs&) const = default;
};

// An expert of a row.
struct ExpertChoice {
  int32_t expert = 0;
  float weight = 0;   // what its output is multiplied by
  int32_t place = 0;  // of the row, among the rows of all experts
};

// Holds what a product left in parts, one for each range of its inputs.
struct Parts {
  const float* values = nullptr;  // [splits, padded_rows, outputs]
  int splits = 0;
  int padded_rows = 0;
  int outputs = 0;
  const float* bias = nullptr;  // [outputs] or null
  // [rows, per_row] or null: a row is that of its first choice, times its
  // weight, and so on in the order of its choices. REQUIRES: one part, no bias.
  const ExpertChoice* choices = nullptr;
  int per_row = 0;
  bool operator==(const Parts&) const = default;
};

// Grows with every change of the kernels that changes the bits of their sums:
// part of the fingerprint of a model on a GPU.
inline constexpr uint64_t kKernelBits = 2;

// The most columns of a row that is normalized; they are a multiple of 64.
inline constexpr int kMaxNormColumns = 32768;
// The most threads that norm a row. Sixteen warps of two quads, four warps on
// each partition of a multiprocessor, fit there beside a product of three
// groups and 80 rows. `tests/device/run.sh tune` compares them with 1024
// threads.
inline constexpr int kMaxNormThreads = 512;
// The most columns of a row whose addend is normed as well.
inline constexpr int kMaxAddedColumns = 16384;

// x += the parts of a product, normed by themselves where `added_weight` says
// so; out = x / rms(x) * weight, as activations.
struct ResidualNormArgs {
  float* x = nullptr;  // [rows, hidden] residual stream
  Parts parts = {};    // splits 0: none
  int rows = 0;
  int hidden = 0;                       // at most kMaxNormColumns
  const float* added_weight = nullptr;  // [hidden] or null
  const float* weight = nullptr;        // [hidden]
  float epsilon = 0;
  // Which row of `out` a row becomes, -1: none. Null: its own.
  const int32_t* out_rows = nullptr;
  unsigned char* out = nullptr;  // activations [., hidden] or null
  int out_block = 0;             // rows of a block of `out`
  bf16_t* tap = nullptr;         // [rows, hidden] x, rounded, or null
  bf16_t* normed_tap = nullptr;  // [rows, hidden] what is normed, or null
  float* normed = nullptr;  // [rows, hidden] the same, not rounded, or null
  bool operator==(const ResidualNormArgs&) const = default;
};

// Rows from wherever they are into a pass, or out of it: a row is one of `from`
// plus the parts of a product, then normed.
struct TakeRowsArgs {
  // One of the two, or neither: zeros.
  const float* from = nullptr;         // [., columns]
  const bf16_t* from_bits = nullptr;   // [., columns]
  const int32_t* from_rows = nullptr;  // [rows] which row of it; null: its own
  Parts parts = {};                    // splits 0: none
  int rows = 0;
  int columns = 0;                // at most kMaxNormColumns
  const float* weight = nullptr;  // [pieces, columns]; null: no norm
  float epsilon = 0;
  // The places of rows before and after the norm. `sums` may be `from` if each
  // row is its own.
  float* sums = nullptr;             // [., columns] or null
  float* normed = nullptr;           // [., columns] or null
  const int32_t* to_rows = nullptr;  // [rows] which row of both, -1: none
  // Normed and rounded, as activations [., out_columns] or null: so many rows
  // that follow each other lie side by side.
  unsigned char* out = nullptr;
  int pieces = 1;
  int out_block = 0;  // rows of a block of `out`
  int out_columns = 0;
  int first_out_row = 0;
  int first_out_column = 0;
  bool operator==(const TakeRowsArgs&) const = default;
};

// By what gates multiply values.
enum class Gate : int { kSilu, kGeluTanh };

// out = weights times rows. An output's bits depend on its row and its weights
// alone: the ranges of inputs that are summed apart follow from the weights'
// shape (ProductSplits).
struct ProductArgs {
  const unsigned char* weights = nullptr;  // [outputs, inputs]
  // [outputs] of weights in e4m3, which these are times; null: they are bf16.
  const float* scales = nullptr;
  const unsigned char* activations = nullptr;  // [rows, inputs]
  int rows = 0;
  int inputs = 0;   // a multiple of 64
  int outputs = 0;  // a multiple of 64
  // One of the two. Parts: [ProductSplits, padded rows, outputs].
  float* parts = nullptr;
  // gate(x) * value of outputs / 2 pairs (GatePlace), as activations.
  unsigned char* gated = nullptr;
  Gate gate = Gate::kSilu;
  bool undivided = false;  // one range of inputs, as of gated ones
  // How the device is used, which changes no bit: the most blocks of the grid,
  // of which each computes parts of the product one after another, whether the
  // L2 cache gives up weights first, and whether a block takes three strips of
  // 256 rows where it can (LargeProduct), instead of two.
  int most_blocks = kProductBlocks;
  bool weights_leave_cache = kWeightsLeaveCache;
  bool tiles_are_large = kTilesAreLarge;
  bool operator==(const ProductArgs&) const = default;
};

// A layer's products after attention in one kernel that stays, in steps:
// attention's output, a norm, gates and values, down, and maybe a norm and the
// product of the next layer's input. Each step reads what the one before it
// wrote. All bits are those of the kernels launched one by one. `ChainFits`
// says which may be.
inline constexpr int kMaxChainSteps = 6;
inline constexpr int kChainCounters = kMaxChainSteps + 1;
struct ChainArgs {
  ProductArgs products[4] = {};
  ResidualNormArgs norms[2] = {};
  int num_steps = 0;  // 4 or 6
  int blocks = 0;     // at most those that the device holds at once
  // [kChainCounters] zeros before and after. Chains that may run beside each
  // other have their own.
  uint32_t* counters = nullptr;
  bool operator==(const ChainArgs&) const = default;
};
ESPALIER_HOST_DEVICE constexpr bool IsChainNorm(int step) {
  return step % 3 == 1;
}
ESPALIER_HOST_DEVICE constexpr int ChainNorm(int step) { return step / 3; }
ESPALIER_HOST_DEVICE constexpr int ChainProduct(int step) {
  return step - (step + 1) / 3;
}

// The most experts of a layer.
inline constexpr int kMaxExperts = 512;

// Chooses the experts of rows: those with the largest logits, of equal ones the
// lower number; a logit that is not a number is below all others.
struct RouteArgs {
  const float* x = nullptr;       // [rows, hidden]
  const float* router = nullptr;  // [experts, hidden]
  int rows = 0;
  int hidden = 0;  // a multiple of 4
  int experts = 0;
  int per_row = 0;
  bool weights_sum_to_one = true;
  ExpertChoice* choices = nullptr;  // [rows, per_row] without places
  bool operator==(const RouteArgs&) const = default;
};

// Some rows of an expert: those at the places of a block of activations.
struct ExpertItem {
  int32_t expert = 0;
  int32_t rows = 0;  // from the block's first on; 0: there is no such item
};

// Groups rows by expert: gives every choice a place. Those of an expert begin
// at a block, and ascend with the rows.
struct GroupRowsArgs {
  ExpertChoice* choices = nullptr;  // [num_choices]
  int num_choices = 0;
  int experts = 0;
  int block = 0;                // places of an item
  ExpertItem* items = nullptr;  // [num_items]
  int num_items = 0;            // ExpertItems
  bool operator==(const GroupRowsArgs&) const = default;
};

// Copies each row to the places of its choices.
struct PlaceRowsArgs {
  const unsigned char* activations = nullptr;  // [rows, columns]
  int rows = 0;
  int columns = 0;                        // a multiple of 64
  const ExpertChoice* choices = nullptr;  // [rows, per_row]
  int per_row = 0;
  unsigned char* out = nullptr;  // activations [places, columns]
  int out_block = 0;             // rows of a block of `out`
  bool operator==(const PlaceRowsArgs&) const = default;
};

// The product of each expert with its rows. `product`: of the first expert,
// with the activations of all places; the others' weights follow.
struct ExpertProductArgs {
  ProductArgs product;
  int64_t expert_bytes = 0;           // from expert to expert
  const ExpertItem* items = nullptr;  // [num_items]
  int num_items = 0;
  int block = 0;  // places of an item: 16 or 64
  bool operator==(const ExpertProductArgs&) const = default;
};

// Turns the product of a layer's input into the inputs of attention: queries
// and keys are normalized (Qwen3), turned by their position and rounded; keys
// and values go into the rows' slots. Several layers are prepared at once where
// only their keys and values are wanted.
struct PrepareArgs {
  // outputs: [layers][heads + 2 kv_heads] heads: queries, keys, values
  Parts parts;
  int layers = 1;
  const float* query_norm = nullptr;  // [head_dim] or null
  const float* key_norm = nullptr;    // [layers, head_dim] or null
  float epsilon = 0;
  const float* angles = nullptr;  // [positions, head_dim / 2, 2] cos, sin
  const PassRow* rows = nullptr;
  const PassSequence* sequences = nullptr;
  int num_rows = 0;
  int heads = 0;  // 0 of several layers
  int kv_heads = 0;
  int head_dim = 0;  // 64, 128 or 256
  KvPages kv;        // of the first layer; the others follow in its pages
  bf16_t* queries = nullptr;  // [rows, heads, head_dim]
  bool operator==(const PrepareArgs&) const = default;
};

// Returns what scores are multiplied by: they are divided by the root of
// `scalar`, and in units of log 2.
inline float AttendScale(double scalar) {
  constexpr float kLog2E = 1.44269504f;
  return kLog2E / std::sqrt(static_cast<float>(scalar));
}

// Work of the attention over pages that lie wholly in a prefix: some rows and
// one chunk of pages.
struct PrefixItem {
  int32_t sequence = 0;
  int32_t chunk = 0;
  // The item has kPrefixItemQueries queries from this one on. A query is a row
  // of the sequence and a head of its group.
  int32_t first_query = 0;
};
// Work of the attention over the pages after these: some rows of a tree.
struct TreeItem {
  int32_t sequence = 0;
  int32_t first_row = 0;  // of the sequence; kTreeItemRows each
};
// Work of the attention over the same pages of a chain: of a sequence of which
// each row sees all rows before it, as in a prompt. AttendsChain says which
// are.
struct ChainItem {
  int32_t sequence = 0;
  int32_t first_query = 0;  // of kChainItemQueries, see PrefixItem
};
inline constexpr int kPrefixItemQueries = 64;
inline constexpr int kChainItemQueries = 64;
inline constexpr int kTreeItemRows = 4;
// Returns whether a chain of so many rows goes that way. Sums of wider heads do
// not fit the registers. Shorter chains are trees, so kernels are told the same
// of a round whatever the form of its trees.
ESPALIER_HOST_DEVICE constexpr bool AttendsChain(int head_dim, int rows) {
  return head_dim <= 128 && rows > 80;
}

// Attention of the pass's rows over their prefixes and paths. A row's bits are
// those of decoding its path token by token: the order of its sums follows from
// absolute positions alone, wherever K/V lies and whatever else is in the pass.
struct AttendArgs {
  const bf16_t* queries = nullptr;  // [rows, heads, head_dim]
  KvPages kv;
  const PassRow* rows = nullptr;
  const PassSequence* sequences = nullptr;
  // [rows] which rows of its sequence a row's path has, itself included.
  const uint16_t* paths = nullptr;
  const PrefixItem* prefix_items = nullptr;
  const TreeItem* tree_items = nullptr;
  const ChainItem* chain_items = nullptr;
  int num_prefix_items = 0;
  int num_tree_items = 0;
  int num_chain_items = 0;
  int tree_pages = 0;  // that a tree of `tree_items` touches at most
  int kv_heads = 0;
  int group = 0;     // heads that share a K/V head, at most 8
  int head_dim = 0;  // 64, 128 or 256
  float scale = 0;   // AttendScale
  // Positions that a row sees, its own among them; 0: all. Pages before
  // FirstSeenPage of a sequence's prefix may be anything.
  int window = 0;
  // The states of chunks: [chunks, kv_heads, rows * group, head_dim + 2] for
  // each sequence, chunks being those before page prefix / 64.
  float* states = nullptr;
  unsigned char* out = nullptr;  // activations [rows, heads * head_dim]
  int out_block = 0;             // rows of a block of `out`
  bool operator==(const AttendArgs&) const = default;
};

// A whole layer in one kernel that stays: Prepare and attention, then a chain.
// All bits are those of the kernels launched one by one. `LayerChainFits` says
// which may be.
inline constexpr int kMaxLayerHeads = 32;  // of K/V
// For each K/V head: prepared, and its prefixes are attended to. For all:
// attended.
inline constexpr int kLayerCounters = kChainCounters + 2 * kMaxLayerHeads + 1;
// An item is for all warps of a block, which share its pages.
inline constexpr int kLayerItemQueries = 96;
inline constexpr int kLayerItemRows = 6;
struct LayerChainArgs {
  PrepareArgs prepare = {};
  AttendArgs attend = {};  // its items are those of launches
  // Their work, in items of kLayerItemQueries and of kLayerItemRows.
  const PrefixItem* prefix_items = nullptr;
  const TreeItem* tree_items = nullptr;
  int num_prefix_items = 0;
  int num_tree_items = 0;
  ChainArgs chain = {};  // it has kLayerCounters
  bool operator==(const LayerChainArgs&) const = default;
};

// Moves K/V of accepted rows to follow the prefix, in all layers.
struct KeepSequence {
  int32_t prefix = 0;
  int32_t table_begin = 0;
  int32_t path_begin = 0;  // in `paths`: ascending rows
  int32_t path_size = 0;   // 0: nothing
};
struct KeepArgs {
  KvPages kv;  // of layer 0
  const KeepSequence* sequences = nullptr;
  const uint16_t* paths = nullptr;
  int num_sequences = 0;
  int panels = 0;  // of a page: layers * kv_heads * 2
  int head_dim = 0;
  bool operator==(const KeepArgs&) const = default;
};

// Rows of taps, the taps of a row side by side.
struct GatherTapsArgs {
  const bf16_t* taps = nullptr;     // [., rows, hidden]
  const int32_t* points = nullptr;  // [num_taps] which of them
  const int32_t* kept = nullptr;    // [num_kept] rows
  int num_taps = 0;
  int rows = 0;
  int hidden = 0;  // a multiple of 64
  int num_kept = 0;
  bf16_t* out = nullptr;  // [num_kept, num_taps, hidden]
  bool operator==(const GatherTapsArgs&) const = default;
};

// Rows of a random matrix, packed: those of nn::RandomBlock.
struct RandomWeightsArgs {
  uint64_t seed = 0;
  float scale = 0;  // a power of two; of codes -7 .. 7
  int rows = 0;
  int outputs = 0;  // at least rows: zeros follow
  int inputs = 0;   // a multiple of 64
  Placing placing = Placing::kInOrder;
  int first_output = 0;  // of the product
  // Codes of e4m3, whose scale is not applied, instead of bf16.
  bool is_e4m3 = false;
  unsigned char* out = nullptr;  // weights [., inputs]
  bool operator==(const RandomWeightsArgs&) const = default;
};

// Reads memory as fast as a kernel can.
inline constexpr int kReadSums = 132 * 8 * 256;
struct ReadArgs {
  const unsigned char* memory = nullptr;
  int64_t bytes = 0;         // a multiple of 16
  uint32_t* sums = nullptr;  // [kReadSums] exclusive or of words
  bool operator==(const ReadArgs&) const = default;
};

using KernelArgs = std::variant<
    EmbedArgs, ResidualNormArgs, TakeRowsArgs, ProductArgs, PrepareArgs,
    AttendArgs, KeepArgs, GatherTapsArgs, DrawArgs, FilterArgs, PerturbArgs,
    RankArgs, GatherArgs, RandomWeightsArgs, ReadArgs, RouteArgs, GroupRowsArgs,
    PlaceRowsArgs, ExpertProductArgs, ChainArgs, LayerChainArgs, MailArgs>;

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNEL_ARGS_H_
