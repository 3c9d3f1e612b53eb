#ifndef ESPALIER_TESTS_COMMON_NN_OPERAND_ROWS_H_
#define ESPALIER_TESTS_COMMON_NN_OPERAND_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/nn/kernels.h"

namespace espalier::nn {

// Rows as a product of this backend reads them.
class OperandRows {
 public:
  // x: [rows, inputs].
  OperandRows(const Kernels& kernels, OperandType type,
              const std::vector<float>& x, int64_t inputs)
      : type_(type),
        stride_(OperandBytes(type, inputs)),
        rows_(static_cast<int64_t>(x.size()) / inputs),
        bytes_(stride_ * rows_) {
    for (int64_t i = 0; i < rows_; ++i) {
      std::byte* const out = &bytes_[i * stride_];
      if (type == OperandType::kFloat32) {
        std::memcpy(out, &x[i * inputs], stride_);
      } else {
        kernels.prepare(
            {.type = type, .x = &x[i * inputs], .inputs = inputs, .out = out});
      }
    }
  }

  // `args` with these rows; they must outlive it.
  LinearArgs In(LinearArgs args) const {
    args.operand = type_;
    args.x = bytes_.data();
    args.x_stride = stride_;
    args.rows = rows_;
    return args;
  }

 private:
  OperandType type_;
  int64_t stride_;
  int64_t rows_;
  std::vector<std::byte> bytes_;
};

}  // namespace espalier::nn

#endif  // ESPALIER_TESTS_COMMON_NN_OPERAND_ROWS_H_
