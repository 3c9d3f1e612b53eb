#include "common/model/native/auto_compute_type.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "absl/strings/match.h"

namespace espalier {
namespace {

// The loss of a file of blocks is wholly that of the rows. The default model's
// bf16 weights are those of a 4-bit file: how int4 rounds others was not
// measured. The last five formats were measured in one file that has them all:
// its rows of 576 inputs have no whole K-quants, so these are in its down
// products.
constexpr MeasuredQuality kMeasured[] = {
    {DType::kBF16, ComputeDType::kInt8, 0.00124, 0.9756},
    {DType::kQ8_0, ComputeDType::kInt8, 0.00135, 0.9730},
    {DType::kQ4_0, ComputeDType::kInt4, 0.00160, 0.9714},
    {DType::kQ4_1, ComputeDType::kInt4, 0.00136, 0.9745},
    {DType::kQ5_0, ComputeDType::kInt8, 0.00156, 0.9720},
    {DType::kQ5_1, ComputeDType::kInt8, 0.00156, 0.9720},
    {DType::kQ4_K, ComputeDType::kInt8, 0.00156, 0.9720},
    {DType::kQ5_K, ComputeDType::kInt8, 0.00156, 0.9720},
    {DType::kQ6_K, ComputeDType::kInt8, 0.00156, 0.9720},
};

// What int4 leaves as it is, int8 does too.
bool Covers(ComputeDType measured, ComputeDType type) {
  return measured == type ||
         (measured == ComputeDType::kInt4 && type == ComputeDType::kInt8);
}

bool IsWithinLimits(DType format, ComputeDType type) {
  return std::any_of(std::begin(kMeasured), std::end(kMeasured),
                     [&](const MeasuredQuality& measured) {
                       return measured.format == format &&
                              Covers(measured.type, type) &&
                              measured.kl <= kMaxAutoKl &&
                              measured.top1 >= kMinAutoTop1;
                     });
}

// Tables with a row for each token.
bool IsVocabulary(const std::string& name) {
  return absl::StrContains(name, "embed_tokens") ||
         absl::StrContains(name, "wte.") || absl::StrContains(name, "lm_head");
}

// int4 leaves vocabularies at 8 bits.
ComputeDType TypeOf(const std::string& name, ComputeDType type) {
  return type == ComputeDType::kInt4 && IsVocabulary(name) ? ComputeDType::kInt8
                                                           : type;
}

bool IsGoodFor(const std::map<std::string, TensorView>& tensors,
               ComputeDType type) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [type](const auto& tensor) {
                       const auto& [name, view] = tensor;
                       return view.shape.size() < 2 ||
                              IsWithinLimits(view.dtype, TypeOf(name, type));
                     });
}

}  // namespace

absl::Span<const MeasuredQuality> MeasuredQualities() { return kMeasured; }

ComputeDType AutoComputeType(const std::map<std::string, TensorView>& tensors) {
  for (ComputeDType type : {ComputeDType::kInt4, ComputeDType::kInt8}) {
    if (IsGoodFor(tensors, type)) return type;
  }
  return ComputeDType::kBFloat16;
}

}  // namespace espalier
