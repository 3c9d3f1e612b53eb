#include <ATen/ops/cat.h>

#include "common/model/aten/decoder.h"
#include "common/model/aten/ops.h"

namespace espalier {

at::Tensor Pass::Attend(int64_t layer, const LayerShape& shape,
                        const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v) const {
  std::vector<at::Tensor> parts;
  for (const PassSequence& part : sequences) {
    auto rows = [&part](const at::Tensor& x) {
      return x.narrow(/*dim=*/0, part.first_row, part.tree.rows());
    };
    part.cache->WriteRows(layer, rows(k), rows(v));
    const at::Tensor& keys = part.cache->k(layer);
    const at::Tensor& values = part.cache->v(layer);
    parts.push_back(part.biases.empty()
                        ? ops::AttendByRows(rows(q), keys, values, part.tree,
                                            {shape.window, shape.score_softcap})
                        : ops::AttendDense(rows(q), keys, values, part.tree,
                                           part.biases.at(shape.window),
                                           shape.score_softcap));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

void Pass::Tap(int32_t point, const at::Tensor& x) const {
  for (const PassSequence& part : sequences) {
    if (!part.tapped->Wants(point)) continue;
    const at::Tensor rows =
        x.narrow(/*dim=*/0, part.first_row, part.tree.rows()).contiguous();
    part.tapped->Take(point, rows.const_data_ptr<float>());
  }
}

}  // namespace espalier
