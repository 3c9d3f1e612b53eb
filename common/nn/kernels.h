// The operators of a decoder as one table of functions per instruction set.
// Plain pointers and sizes only: the files that implement it are compiled with
// their own flags, and an inline function that came along would be compiled
// with them too and might be the copy that the linker keeps. So functions here
// are static, and all of the _inl.h is in anonymous namespaces
// (`kernel_symbols` tests it).
//
// Every backend sums in float32 and keeps one promise: an output depends on its
// own inputs only, to the bit. How many rows are in the call, how panels are
// cut into calls, and whether a position is cached or a row of a tree changes
// nothing. Backends agree with each other up to rounding; sums of blocks are
// the same in all of them: the products within a block are added as integers,
// and float32 takes what comes out, block by block, in one order.
#ifndef ESPALIER_COMMON_NN_KERNELS_H_
#define ESPALIER_COMMON_NN_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "common/nn/kv_type.h"

namespace espalier::nn {

// Outputs of a packed weight that lie together.
inline constexpr int64_t kPanelOutputs = 32;
// A panel of a gated product (SwiGLU) holds so many gates and then as many of
// the values that they multiply.
inline constexpr int64_t kGatedOutputs = kPanelOutputs / 2;

enum class WeightType {
  kBf16,     // panel: [PaddedInputs / 2][kPanelOutputs][2] bf16
  kFloat32,  // panel: [inputs][kPanelOutputs] float32
  kBlocks,   // integers with scales, see BlockFormat
};

// Inputs of a block, of which a panel of kBlocks and the rows that it is
// multiplied with have one after another.
inline constexpr int64_t kBlockInputs = 32;

// How a block holds its weights: as unsigned codes of `bits`, with a scale for
// each output and `group` inputs. A weight is scale * code + minimum or, where
// there are no minimums, scale * (code - 2^(bits - 1)). These are the blocks of
// GGUF files, a panel's worth of them side by side:
//   codes    8 bits: [8][kPanelOutputs][4 inputs] bytes
//            4 bits: [4][kPanelOutputs][4] bytes; the low halves hold four
//            inputs, the high halves the next four
//   scales   [32 / group][kPanelOutputs] float16 or, if wide, float32
//   minimums the same, if there are any
struct BlockFormat {
  int bits = 8;
  bool minimums = false;  // with 8 bits: no code is above 127
  bool wide_scales = false;
  int64_t group = 32;  // with 8 bits: or 16
};

static inline int64_t CodeBytes(const BlockFormat& format) {
  return kBlockInputs * kPanelOutputs * format.bits / 8;
}
static inline int64_t ScaleBytes(const BlockFormat& format) {
  return kBlockInputs / format.group * kPanelOutputs *
         (format.wide_scales ? 4 : 2);
}
// Returns the bytes of a block of a panel.
static inline int64_t BlockBytes(const BlockFormat& format) {
  return CodeBytes(format) + ScaleBytes(format) * (format.minimums ? 2 : 1);
}

// Whole blocks, which are whole AMX tiles of bf16 as well.
static inline int64_t PaddedInputs(int64_t inputs) {
  return (inputs + 31) / 32 * 32;
}

// Packed weights of y = W x (PackedMatrix owns them). What is missing to whole
// panels and to PaddedInputs is zero.
struct PanelView {
  WeightType type = WeightType::kBf16;
  const std::byte* data = nullptr;  // panels, one after another
  int64_t panel_bytes = 0;
  int64_t inputs = 0;
  BlockFormat format;  // of kBlocks
};

// Names what a product reads instead of a row of float32. Float32 weights take
// float32 rows only, and blocks take blocks of either kind.
enum class OperandType {
  kFloat32,  // [inputs]: the row itself
  kBf16,     // [PaddedInputs] bf16, rounded
  // [2][PaddedInputs] bf16: the row rounded, then what that took off, rounded.
  // Their sum has 16 bits where float32 has 24.
  kSplitBf16,
  kBlocks,      // [PaddedInputs / kBlockInputs] RowBlock: 8 bits
  kFineBlocks,  // [PaddedInputs / kBlockInputs] FineRowBlock: 15 bits
};

// Some inputs of a row: codes[i] * scale, rounded to the nearest. The scale
// makes the largest 127; it is NaN where not all inputs are finite.
struct RowBlock {
  int8_t codes[kBlockInputs];
  float scale;
  float scaled_sum;   // scale * the sum of the codes
  int32_t minus_sum;  // of the codes
  float half_scaled_sums[2];
  int32_t minus_half_sums[2];
  int32_t unused;
};
static_assert(sizeof(RowBlock) == 64);

// A RowBlock with kFineSteps times the steps: an input is (codes[i] *
// kFineSteps
// + low[i]) * scale, and all sums are of these codes. `high.codes` are those of
// a RowBlock.
inline constexpr int32_t kFineSteps = 128;
struct FineRowBlock {
  RowBlock high;
  int8_t low[kBlockInputs];
};
static_assert(sizeof(FineRowBlock) == 96);

static inline int64_t OperandBytes(OperandType type, int64_t inputs) {
  switch (type) {
    case OperandType::kFloat32:
      return inputs * 4;
    case OperandType::kBf16:
      return PaddedInputs(inputs) * 2;
    case OperandType::kSplitBf16:
      return PaddedInputs(inputs) * 4;
    case OperandType::kBlocks:
      return PaddedInputs(inputs) / kBlockInputs *
             static_cast<int64_t>(sizeof(RowBlock));
    case OperandType::kFineBlocks:
      return PaddedInputs(inputs) / kBlockInputs *
             static_cast<int64_t>(sizeof(FineRowBlock));
  }
  return 0;
}

// Returns true if the operand of some whole blocks of inputs is a part of the
// row's operand, OperandBytes of the inputs before them after its beginning.
static inline bool IsMadeInParts(OperandType type) {
  return type == OperandType::kBf16 || type == OperandType::kBlocks ||
         type == OperandType::kFineBlocks;
}

// One row to an operand: once per product, whatever its panels.
struct PrepareArgs {
  OperandType type = OperandType::kBf16;  // not kFloat32
  const float* x = nullptr;               // [inputs]
  int64_t inputs = 0;
  void* out = nullptr;  // [OperandBytes]
};

enum class Activation { kNone, kSilu, kGelu, kGeluTanh };

// out = epilogue(W x + bias) for some panels. The order of the sum over the
// inputs is the backend's, and the same for every row.
struct LinearArgs {
  PanelView weights;
  int64_t panel_begin = 0;
  int64_t panel_end = 0;
  const float* bias = nullptr;  // [panels * kPanelOutputs] as packed, or null

  int64_t rows = 0;
  OperandType operand = OperandType::kFloat32;  // that the backend knows
  const void* x = nullptr;                      // [rows] operands
  int64_t x_stride = 0;                         // bytes from row to row
  float* out = nullptr;                         // [rows, out_columns]
  int64_t out_stride = 0;                       // floats from row to row
  int64_t out_columns = 0;  // of the whole matrix; half of W's rows if gated

  Activation activation = Activation::kNone;
  bool gated = false;       // out = activation(gate) * value
  float softcap = 0;        // out = softcap * tanh(out / softcap); 0: out
  bool accumulate = false;  // out += instead of out =
};

// One row. Root mean square where `bias` is null, else mean and variance.
struct NormArgs {
  const float* x = nullptr;  // [size]
  int64_t size = 0;
  const float* weight = nullptr;  // [size]
  const float* bias = nullptr;    // [size] or null
  float epsilon = 0;
  float* out = nullptr;  // [size]
};

// One head of one row: pairs (i, i + head_dim / 2) turned, then scaled.
struct RotateArgs {
  const float* x = nullptr;  // [head_dim]
  int64_t head_dim = 0;
  const float* cos = nullptr;  // [head_dim / 2]; null: scale only
  const float* sin = nullptr;
  float scale = 1;
  float* out = nullptr;  // [head_dim]; may be x
};

// The size of a head is a multiple of this, see AttendArgs.
inline constexpr int64_t kHeadDimUnit = 8;

// Positions of a K/V page.
inline constexpr int64_t kPageTokens = 32;

// One query: a row of the pass and one of its heads.
struct AttendQuery {
  // Rows of the pass that the query sees besides the prefix, ascending: those
  // up to its own along a tree, or all rows of a block.
  const int32_t* ancestors = nullptr;
  int64_t num_ancestors = 0;
  // The first position that the query sees, of the prefix and then of its
  // ancestors, where its window begins. REQUIRES: it sees one.
  int64_t first = 0;
  float* out = nullptr;  // [head_dim]
};

// Returns the floats that kPageTokens * head_dim keys or values take.
static inline int64_t KvPanelFloats(KvType type, int64_t head_dim) {
  switch (type) {
    case KvType::kFloat32:
      break;
    case KvType::kBf16:
      return kPageTokens * head_dim / 2;
    case KvType::kInt8:
      return kPageTokens * (head_dim / 4 + 1);
  }
  return kPageTokens * head_dim;
}

// The keys and the values of one K/V head in a page: KvPanelFloats each, laid
// out as the backend likes. What was never written may be anything.
struct KvPanels {
  KvType type = KvType::kFloat32;
  float* keys = nullptr;
  float* values = nullptr;
  int64_t head_dim = 0;
};

// A call may do a part of an attention, so that threads share one. A step
// begins when the one before it is done; its parts may run at the same time.
// The bits are those of one call.
enum class AttendStep {
  kAll,
  kQueries,  // by query: makes operands of them
  kScores,   // by page
  kWeights,  // by query
  kValues,   // by dimension of the head, kAttendDims of them at a time
};
inline constexpr int64_t kAttendDims = 32;

// begin .. end - 1 of what a step goes by; of kAll: nothing.
struct AttendPart {
  AttendStep step = AttendStep::kAll;
  int64_t begin = 0;
  int64_t end = 0;
};

// softmax(Q K^T) V of queries that share a K/V head and a prefix. Slot s of the
// cache is position s of the prefix, then row s - prefix of the pass. Queries
// of one row should follow each other, and have the same `ancestors`.
struct AttendArgs {
  KvType type = KvType::kFloat32;
  const float* queries = nullptr;  // [num_queries, head_dim], rotated, scaled
  const AttendQuery* query = nullptr;  // [num_queries]
  int64_t num_queries = 0;
  int64_t head_dim = 0;  // a multiple of kHeadDimUnit
  int64_t prefix = 0;
  int64_t rows = 0;
  float softcap = 0;  // scores are softcap * tanh(q k / softcap); 0: q k
  // Page p holds the slots from p * kPageTokens, its panels at these offsets
  // (in floats).
  const float* const* pages = nullptr;
  int64_t key_offset = 0;
  int64_t value_offset = 0;
  AttendPart part = {};
  float* scratch = nullptr;  // [AttendScratch(args)], of all parts
  float* panels = nullptr;   // [AttendPanels(args)], of a call alone
};

static inline int64_t AttendPages(const AttendArgs& args) {
  return (args.prefix + args.rows + kPageTokens - 1) / kPageTokens;
}
// Returns the distance of two queries' scores, in floats.
static inline int64_t AttendScoreStride(const AttendArgs& args) {
  return AttendPages(args) * kPageTokens;
}
// In floats; enough for all backends, one cache line to align it included.
static inline int64_t AttendScratch(const AttendArgs& args) {
  return args.num_queries * (AttendScoreStride(args) + 2 * args.head_dim + 1) +
         16;
}
static inline int64_t AttendPanels(const AttendArgs& args) {
  return (args.rows + 2 * kPageTokens) * (args.head_dim + 1) + 16;
}

// Indices begin .. end - 1.
struct AttendRange {
  int64_t begin = 0;
  int64_t end = 0;
};
// Says what a call does of each step, by what the step goes by.
struct AttendWork {
  AttendRange queries, pages, weights, dims;
};
static inline AttendWork AttendWorkOf(const AttendArgs& args) {
  const auto range = [&](AttendStep step, int64_t size) -> AttendRange {
    if (args.part.step == AttendStep::kAll) return {.begin = 0, .end = size};
    if (args.part.step != step) return {};
    return {.begin = args.part.begin, .end = args.part.end};
  };
  return {.queries = range(AttendStep::kQueries, args.num_queries),
          .pages = range(AttendStep::kScores, AttendPages(args)),
          .weights = range(AttendStep::kWeights, args.num_queries),
          .dims = range(AttendStep::kValues, args.head_dim)};
}

// The largest of every kPanelOutputs numbers of a row, so that a search passes
// over panels instead of numbers.
struct PeakArgs {
  const float* x = nullptr;  // [size]
  int64_t size = 0;
  const float* offsets = nullptr;  // [size] or null: none
  float scale = 0;                 // of the offsets
  float* peaks = nullptr;  // [ceil(size / kPanelOutputs)] of x + scale * offset
};

// The Gumbel noise of a range of tokens, from above: within 0.1 where it is
// large, and above 0 where it is small or negative. See GumbelNoise.
struct NoiseArgs {
  uint64_t key = 0;           // of Philox
  uint32_t counter[4] = {};   // of the first four tokens; then [0] counts up
  int64_t panels = 0;         // of kPanelOutputs tokens
  float* ceilings = nullptr;  // [panels * kPanelOutputs]
};

struct Kernels {
  const char* name;  // "avx2"
  // The operands of bf16 weights: as exact as this backend can do fast, and as
  // fast as it can.
  OperandType exact_operand;
  OperandType fast_operand;
  void (*prepare)(const PrepareArgs&);
  void (*linear)(const LinearArgs&);
  void (*normalize)(const NormArgs&);
  void (*rotate)(const RotateArgs&);
  // Puts a key and a value, [head_dim] each, into a slot of a page.
  void (*write_kv)(const KvPanels&, int64_t slot, const float* key,
                   const float* value);
  void (*copy_kv)(const KvPanels& from, int64_t from_slot, const KvPanels& to,
                  int64_t to_slot);
  void (*attend)(const AttendArgs&);
  // That one call should have, if there are so many. Calls for parts have no
  // more of them.
  int64_t attend_queries;
  // Calls for each thread, if there are enough queries: two share the work more
  // evenly, one reads less twice where its time hardly depends on its queries.
  int64_t attend_calls;
  // Returns true if all of x is finite; else the peaks mean nothing.
  bool (*peaks)(const PeakArgs&);
  // Sum of e^(x - shift), for shift >= x.
  float (*sum_exp)(const float* x, int64_t size, float shift);
  void (*noise_ceilings)(const NoiseArgs&);
};

// The backends; each is there where it can be compiled. See UsableBackends.
const Kernels& PortableKernels();
const Kernels& Avx2Kernels();     // x86 with AVX2, FMA and F16C
const Kernels& AvxVnniKernels();  // the same and AVX-VNNI
// x86 with AVX-512 F, BW, DQ, VL, VNNI and BF16
const Kernels& Avx512Bf16Kernels();
const Kernels& AmxKernels();  // the same and AMX's tiles, of bf16 and int8

}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_KERNELS_H_
