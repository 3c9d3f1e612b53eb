#include "tests/device/chain_timing.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/cuda/chain_shape.h"
#include "common/cuda/device_array.h"
#include "common/cuda/layout.h"
#include "common/cuda/product_shape.h"
#include "tests/device/chain_attention.h"

namespace espalier::cuda {
namespace {

template <typename T>
using Array = DeviceArray<T>;

// Layers with random weights, and what lies between their kernels.
class Layers {
 public:
  static absl::StatusOr<Layers> Make(ComputeDevice& device,
                                     const ChainLayer& shape, int count,
                                     int rows,
                                     const ChainAttention* attention) {
    Layers layers(device, shape, rows);
    RETURN_IF_ERROR(layers.Allocate(count));
    if (attention != nullptr) {
      ASSIGN_OR_RETURN(layers.attention_,
                       AttentionOfLayers::Make(device, *attention, count, rows,
                                               layers.attended_.data()));
    }
    return layers;
  }

  // Starts anew from the same rows.
  absl::Status Reset() {
    x_.Write(0, ones_);
    parts_.Write(0, first_parts_);
    counters_.Write(0, zeros_);
    return Wait();
  }
  absl::Status Wait() { return device_->Wait(device_->Record()); }

  void LaunchEach() {
    for (int i = 0; i < count(); ++i) {
      LaunchAttention(i);
      ForEachOfChain(chains_[i],
                     [this](const auto& kernel) { device_->Launch(kernel); });
    }
  }
  void LaunchChains() {
    for (int i = 0; i < count(); ++i) {
      LaunchAttention(i);
      device_->Launch(chains_[i]);
    }
  }
  void LaunchAttendingChains() {
    for (int i = 0; i < count(); ++i) device_->Launch(LayerOf(i));
  }
  const ChainArgs& first() const { return chains_[0]; }
  // REQUIRES: there is attention.
  LayerChainArgs LayerOf(int layer) const {
    return attention_->LayerOf(layer, chains_[layer], parts_.data());
  }
  int count() const { return static_cast<int>(chains_.size()); }

  // Returns the residual stream and the parts of qkv.
  absl::StatusOr<std::vector<float>> Results() {
    const int64_t of_x = x_.size();
    std::vector<float> values(of_x + int64_t{rows_} * shape_.qkv);
    const auto all = absl::MakeSpan(values);
    x_.Read(0, all.subspan(0, of_x));
    parts_.Read(0, all.subspan(of_x));
    RETURN_IF_ERROR(Wait());
    return values;
  }

 private:
  Layers(ComputeDevice& device, const ChainLayer& shape, int rows)
      : device_(&device),
        shape_(shape),
        rows_(rows),
        ones_(int64_t{rows} * shape.hidden, 1.0f),
        zeros_(kLayerCounters) {}

  void LaunchAttention(int layer) {
    if (!attention_.has_value()) return;
    const LayerChainArgs args = LayerOf(layer);
    device_->Launch(args.prepare);
    device_->Launch(args.attend);
  }

  absl::Status Allocate(int count) {
    const auto [attended, hidden, ffn, qkv] = shape_;
    ASSIGN_OR_RETURN(x_, Array<float>::Make(*device_, std::ssize(ones_)));
    const auto sizes = {PartsSize(hidden, attended), PartsSize(hidden, ffn),
                        PartsSize(qkv, hidden)};
    ASSIGN_OR_RETURN(parts_, Array<float>::Make(*device_, std::max(sizes)));
    ASSIGN_OR_RETURN(weight_, Array<float>::Make(*device_, hidden));
    first_parts_.assign(parts_.size(), 0.25f);
    weight_.Write(0, absl::MakeSpan(ones_).subspan(0, hidden));
    ASSIGN_OR_RETURN(counters_,
                     Array<uint32_t>::Make(*device_, kLayerCounters));
    ASSIGN_OR_RETURN(attended_,
                     NewRandom(PaddedRows(rows_), attended, 0x1p-3f));
    ASSIGN_OR_RETURN(normed_, NewRandom(PaddedRows(rows_), hidden, 0));
    ASSIGN_OR_RETURN(gated_, NewRandom(PaddedRows(rows_), ffn, 0));
    for (int i = 0; i < count; ++i) RETURN_IF_ERROR(AddLayer());
    return Wait();
  }

  absl::Status AddLayer() {
    const auto [attended, hidden, ffn, qkv] = shape_;
    ChainArgs chain;
    chain.num_steps = kMaxChainSteps;
    ASSIGN_OR_RETURN(chain.products[0], Product(hidden, attended_, attended));
    ASSIGN_OR_RETURN(chain.products[1], Product(2 * ffn, normed_, hidden));
    ASSIGN_OR_RETURN(chain.products[2], Product(hidden, gated_, ffn));
    ASSIGN_OR_RETURN(chain.products[3], Product(qkv, normed_, hidden));
    chain.products[1].parts = nullptr;
    chain.products[1].gated = gated_.data();
    chain.norms[0] = Norm(attended);
    chain.norms[1] = Norm(ffn);
    chain.counters = counters_.data();
    chain.blocks = ChainBlocks(chain, device_->info().resident_blocks);
    chains_.push_back(chain);
    return absl::OkStatus();
  }

  // Small numbers, so that sums stay finite.
  absl::StatusOr<Array<unsigned char>> NewRandom(int outputs, int inputs,
                                                 float scale) {
    const int strips = (outputs + kStripOutputs - 1) / kStripOutputs;
    const int padded = strips * kStripOutputs;
    ASSIGN_OR_RETURN(auto array, Array<unsigned char>::Make(
                                     *device_, int64_t{2} * padded * inputs));
    device_->Launch(RandomWeightsArgs{.seed = ++seed_,
                                      .scale = scale,
                                      .rows = padded,
                                      .outputs = padded,
                                      .inputs = inputs,
                                      .out = array.data()});
    return array;
  }
  absl::StatusOr<ProductArgs> Product(int outputs,
                                      const Array<unsigned char>& rows,
                                      int inputs) {
    ASSIGN_OR_RETURN(auto weights, NewRandom(outputs, inputs, 0x1p-9f));
    weights_.push_back(std::move(weights));
    return ProductArgs{.weights = weights_.back().data(),
                       .activations = rows.data(),
                       .rows = rows_,
                       .inputs = inputs,
                       .outputs = outputs,
                       .parts = parts_.data()};
  }
  ResidualNormArgs Norm(int inputs) const {
    return {.x = x_.data(),
            .parts = {.values = parts_.data(),
                      .splits = ProductSplits(shape_.hidden, inputs),
                      .padded_rows = PaddedRows(rows_),
                      .outputs = shape_.hidden},
            .rows = rows_,
            .hidden = shape_.hidden,
            .weight = weight_.data(),
            .epsilon = 1e-5f,
            .out = normed_.data(),
            .out_block = RowBlock(rows_)};
  }
  int64_t PartsSize(int outputs, int inputs) const {
    return int64_t{ProductSplits(outputs, inputs)} * PaddedRows(rows_) *
           outputs;
  }

  ComputeDevice* device_;
  ChainLayer shape_;
  int rows_;
  uint64_t seed_ = 0;
  std::vector<float> ones_, first_parts_;
  std::vector<uint32_t> zeros_;
  Array<float> x_, parts_, weight_;
  Array<uint32_t> counters_;
  Array<unsigned char> attended_, normed_, gated_;
  std::vector<Array<unsigned char>> weights_;
  std::vector<ChainArgs> chains_;
  std::optional<AttentionOfLayers> attention_;
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

absl::StatusOr<Layers> MakeFitting(ComputeDevice& device,
                                   const ChainLayer& shape, int layers,
                                   int rows, const ChainAttention* attention) {
  ASSIGN_OR_RETURN(Layers all,
                   Layers::Make(device, shape, layers, rows, attention));
  const int blocks = device.info().resident_blocks;
  if (!ChainFits(all.first(), blocks) ||
      (attention != nullptr && !LayerChainFits(all.LayerOf(0), blocks))) {
    return absl::FailedPreconditionError(
        absl::StrCat("no chain of ", rows, " rows on a device that holds ",
                     blocks, " blocks"));
  }
  return all;
}

// Times ways to launch all layers, in turns. `wait`: until one is done.
absl::StatusOr<FormTimes> TimeWays(
    Layers& all, int turns, const std::vector<std::function<void()>>& ways,
    const std::function<absl::Status()>& wait) {
  std::vector<std::vector<double>> times(ways.size());
  std::vector<std::vector<float>> results(ways.size());
  for (int turn = 0; turn <= turns; ++turn) {  // the first one is not counted
    for (size_t way = 0; way < ways.size(); ++way) {
      RETURN_IF_ERROR(all.Reset());
      const absl::Time start = absl::Now();
      ways[way]();
      RETURN_IF_ERROR(wait());
      const double us = absl::ToDoubleMicroseconds(absl::Now() - start);
      if (turn > 0) times[way].push_back(us / all.count());
      ASSIGN_OR_RETURN(results[way], all.Results());
    }
  }
  FormTimes found;
  for (const auto& of_way : times) found.us.push_back(Median(of_way));
  found.same_bits = std::all_of(
      results.begin(), results.end(), [&](const std::vector<float>& result) {
        return std::memcmp(results[0].data(), result.data(),
                           result.size() * 4) == 0;
      });
  return found;
}

}  // namespace

absl::StatusOr<ChainTimes> TimeChains(ComputeDevice& device,
                                      const ChainLayer& shape, int layers,
                                      int rows, int turns,
                                      const ChainAttention* attention) {
  ASSIGN_OR_RETURN(Layers all,
                   MakeFitting(device, shape, layers, rows, attention));
  std::vector<std::function<void()>> ways = {[&] { all.LaunchEach(); },
                                             [&] { all.LaunchChains(); }};
  if (attention != nullptr) {
    ways.emplace_back([&] { all.LaunchAttendingChains(); });
  }
  ASSIGN_OR_RETURN(const FormTimes found,
                   TimeWays(all, turns, ways, [&] { return all.Wait(); }));
  return ChainTimes{.chain_us = found.us[1],
                    .launches_us = found.us[0],
                    .attending_us = attention == nullptr ? 0 : found.us[2],
                    .same_bits = found.same_bits};
}

absl::StatusOr<FormTimes> TimeForms(ComputeDevice& device,
                                    const ChainLayer& shape, int layers,
                                    int rows, int turns,
                                    const ChainAttention& attention,
                                    const LayerForms& forms) {
  ASSIGN_OR_RETURN(Layers all,
                   MakeFitting(device, shape, layers, rows, &attention));
  std::vector<std::function<void()>> ways;
  for (const auto& launch : forms.launches) {
    ways.emplace_back([&all, &launch] {
      for (int i = 0; i < all.count(); ++i) launch(all.LayerOf(i));
    });
  }
  return TimeWays(all, turns, ways, [&] {
    forms.wait();
    return absl::OkStatus();
  });
}

}  // namespace espalier::cuda
