#include <ATen/ATen.h>

#include <algorithm>

#include "common/model/aten/decoder.h"
#include "common/model/aten/ops.h"

namespace espalier {

at::Tensor Pass::Attend(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v) const {
  std::vector<at::Tensor> parts;
  for (const PassSequence& part : sequences) {
    auto rows = [&part](const at::Tensor& x) {
      return x.narrow(/*dim=*/0, part.first_row, part.tree.rows());
    };
    part.cache->WriteRows(layer, rows(k), rows(v));
    const at::Tensor& keys = part.cache->k(layer);
    const at::Tensor& values = part.cache->v(layer);
    parts.push_back(
        part.bias.defined()
            ? ops::AttendDense(rows(q), keys, values, part.tree, part.bias)
            : ops::AttendByRows(rows(q), keys, values, part.tree));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

void Pass::Tap(int64_t point, const at::Tensor& x) const {
  const int64_t hidden = x.size(1);
  for (const PassSequence& part : sequences) {
    const auto tap = std::find(part.taps.begin(), part.taps.end(), point);
    if (tap == part.taps.end()) continue;
    const at::Tensor rows =
        x.narrow(/*dim=*/0, part.first_row, part.tree.rows())
            .to(at::kCPU)  // sync
            .contiguous();
    const float* in = rows.const_data_ptr<float>();
    const int64_t width = static_cast<int64_t>(part.taps.size()) * hidden;
    float* out = part.features.data() + (tap - part.taps.begin()) * hidden;
    for (int64_t row = 0; row < part.tree.rows(); ++row) {
      std::copy_n(in + row * hidden, hidden, out + row * width);
    }
  }
}

}  // namespace espalier
