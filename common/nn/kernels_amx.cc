// Compiled with AVX-512 F, BW, DQ, VL, VNNI and BF16, and AMX's tiles.
#include "common/nn/attention_amx_inl.h"
#include "common/nn/avx512_inl.h"
#include "common/nn/blocks_amx_inl.h"
#include "common/nn/few_rows_amx_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_amx_inl.h"

namespace espalier::nn {
namespace {

// In assembler: the compilers' own functions want a tile's number as a literal.
struct CpuTiles {
  static void Configure(const AmxConfig& config) {
    asm volatile("ldtilecfg %0" ::"m"(config));
  }
  static void Release() { asm volatile("tilerelease"); }
  template <int T>
  static void Zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  static void Load(const void* p, int64_t row_stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(row_stride),
                 "i"(T)
                 : "memory");
  }
  template <int T>
  static void Store(void* p, int64_t row_stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(row_stride),
                 "i"(T)
                 : "memory");
  }
  template <int Sum, int A, int B>
  static void MultiplyAdd() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sum), "i"(A),
                 "i"(B));
  }
  template <int Sum, int A, int B>
  static void MultiplyAddBytes() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sum), "i"(A),
                 "i"(B));
  }
  template <int Sum, int A, int B>
  static void MultiplyAddUnsigned() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sum), "i"(A),
                 "i"(B));
  }
};

// Products of integers with fewer rows are faster on vectors, which have less
// to do where codes are unpacked. The bits are the same.
int64_t FewestAmxRows(const LinearArgs& a) {
  if (a.weights.format.bits == 8) return 4;
  return a.operand == OperandType::kFineBlocks ? 6 : 7;
}

void LinearOfIntegers(const LinearArgs& a) {
  if (a.rows < FewestAmxRows(a) || !FitsAmxBlocks(a.weights.format)) {
    Avx512Bf16Kernels().linear(a);
  } else if (AreFewAmxRows(a.rows)) {
    AmxLinearOfFewRows<Avx512Ints, CpuTiles>(a);
  } else {
    AmxLinearOfBlocks<Avx512Ints, CpuTiles>(a);
  }
}

void LinearAnyOperand(const LinearArgs& a) {
  switch (a.operand) {
    case OperandType::kFloat32:
      return Avx512Bf16Kernels().linear(a);
    case OperandType::kBlocks:
    case OperandType::kFineBlocks:
      return LinearOfIntegers(a);
    default:
      return AmxLinear<Avx512, CpuTiles>(a);
  }
}

// Heads that are no whole tiles are the vectors' work.
bool HasWholeTiles(int64_t head_dim) { return head_dim % kAmxInputs == 0; }

// Pages are of split bf16 where they would be of float32.
bool IsSplit(KvType type, int64_t head_dim) {
  return type == KvType::kFloat32 && HasWholeTiles(head_dim);
}

void WriteKvOfAnyHead(const KvPanels& page, int64_t slot, const float* key,
                      const float* value) {
  (IsSplit(page.type, page.head_dim)
       ? WriteSplitKv<PrepareBf16>
       : Avx512Bf16Kernels().write_kv)(page, slot, key, value);
}

void CopyKvOfAnyHead(const KvPanels& from, int64_t from_slot,
                     const KvPanels& to, int64_t to_slot) {
  (IsSplit(from.type, from.head_dim)
       ? CopySplitKv
       : Avx512Bf16Kernels().copy_kv)(from, from_slot, to, to_slot);
}

// Pages of int8 are read by the vectors as well.
void AttendWithAnyHead(const AttendArgs& a) {
  (HasWholeTiles(a.head_dim) && a.type != KvType::kInt8
       ? AmxAttend<Avx512, CpuTiles, PrepareBf16>
       : Avx512Bf16Kernels().attend)(a);
}

}  // namespace

// Operations without code for tiles are those of AVX-512.
const Kernels& AmxKernels() {
  static const Kernels kKernels = [] {
    Kernels kernels = Avx512Bf16Kernels();
    kernels.name = "amx";
    kernels.exact_operand = OperandType::kSplitBf16;
    kernels.linear = LinearAnyOperand;
    kernels.write_kv = WriteKvOfAnyHead;
    kernels.copy_kv = CopyKvOfAnyHead;
    kernels.attend = AttendWithAnyHead;
    kernels.attend_queries = kAmxRows;
    kernels.attend_calls = 1;
    return kernels;
  }();
  return kKernels;
}

}  // namespace espalier::nn
