#ifndef ESPALIER_COMMON_MODEL_NATIVE_NATIVE_MIXTURE_H_
#define ESPALIER_COMMON_MODEL_NATIVE_NATIVE_MIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/model/files/layer_shape.h"
#include "common/model/native/expert_routing.h"
#include "common/model/native/native_weights.h"
#include "common/model/native/row_operands.h"

namespace espalier {

// The feed-forward part of layers with experts (ExpertsShape). The rows of a
// pass are grouped by expert, so that each panel of an expert is read once a
// pass, however many rows it has. A row's outputs are added in the order of its
// choices, so its bits do not depend on who shares the pass. Owns scratch
// memory; one thread, the engine's, calls it.
class NativeMixture {
 public:
  // `operands` prepare the rows of products; they and the runtime's references
  // must outlive this object.
  NativeMixture(const LayerRuntime& runtime, RowOperands& operands)
      : runtime_(runtime), operands_(operands) {}

  // out: [rows, hidden], what is to be added to x: [rows, hidden].
  void Run(const ExpertsShape& shape, const NativeLayer& layer, const float* x,
           int64_t rows, float* out);

  // Returns how many experts had rows, over all calls since BeginPass.
  int64_t experts_read() const { return experts_read_; }
  void BeginPass() { experts_read_ = 0; }

 private:
  // Sets choices_ and groups_ by the router's logits of the rows in input_.
  void Route(const ExpertsShape& shape, const NativeLayer& layer, int64_t rows,
             int64_t hidden);
  void CopyToPlaces(int64_t hidden);
  // One product of every expert that has rows. x: [places, inputs]; out:
  // [places, out_columns].
  void Multiply(const std::vector<NativeMlp>& mlps,
                NativeLinear NativeMlp::*product, nn::Activation activation,
                const float* x, float* out);
  void Combine(int64_t per_row, int64_t rows, int64_t hidden, float* out);

  const LayerRuntime runtime_;
  RowOperands& operands_;
  std::vector<ExpertChoice> choices_;  // [rows, per_row]
  ExpertGroups groups_;
  int64_t experts_read_ = 0;
  std::vector<float> input_;   // [rows, hidden], normalized
  std::vector<float> logits_;  // [rows, experts]
  std::vector<float> placed_;  // [places, hidden]: input, then output
  std::vector<float> inner_;   // [places, ffn]
};

// INVALID_ARGUMENT unless the experts' weights have one type, as their products
// need it. `layer` begins the message.
absl::Status CheckAlike(const NativeExperts& experts, const std::string& layer);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_NATIVE_MIXTURE_H_
