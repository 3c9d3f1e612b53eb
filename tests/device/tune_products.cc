// Forms of products.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/cuda/product_shape.h"
#include "tests/device/tuner.h"

namespace espalier::cuda {
namespace {

constexpr char kFile[] = "common/cuda/product_shape.h: ";
constexpr int kAllBlocks = 1 << 30;  // one for each part

// Queues the products of a layer.
void LaunchLayer(Tuner& tuner, const ProductMemory& memory, int rows, int call,
                 bool weights_leave_cache) {
  for (const ProductMemory::Shape& shape : memory.layer) {
    ProductArgs args = memory.Of(shape, rows, call);
    args.weights_leave_cache = weights_leave_cache;
    tuner.Launch(KernelArgs(args));
  }
}

}  // namespace

// One instruction as wide as the block, beside some of 64 rows each.
std::vector<Finding> TuneWidths(Tuner& tuner) {
  constexpr double kMaxRatio = 1.0;
  const ProductMemory memory(tuner, 256);
  const std::vector<int> all_rows =
      tuner.tiny() ? std::vector{65} : std::vector{65, 128, 129, 256};
  Finding finding = {
      .form = "products by one instruction for all rows",
      .threshold = absl::StrFormat("the same bits, at most %.2f of those of 64",
                                   kMaxRatio),
      .is_taken = true};
  for (int rows : all_rows) {
    const ProductMemory::Shape& shape = memory.layer[2];
    const auto wide = [&](int call) {
      ProductArgs args = memory.Of(shape, rows, call);
      args.most_blocks = kAllBlocks;
      tuner.Launch(KernelArgs(args));
    };
    const auto narrow = [&](int call) {
      tuner.Launch(NarrowProductArgs{memory.Of(shape, rows, call)});
    };
    wide(0);
    const auto wide_bits = memory.Outputs(tuner, shape, rows);
    narrow(0);
    const bool same = memory.Outputs(tuner, shape, rows) == wide_bits;
    const std::vector<double> us = tuner.Compare({wide, narrow});
    absl::StrAppendFormat(&finding.figure, "%d rows: %.1f of %.1f us%s; ", rows,
                          us[0], us[1], same ? "" : ", OTHER BITS");
    finding.is_taken &= same && us[0] <= kMaxRatio * us[1];
  }
  finding.line = absl::StrCat(
      kFile, "kWidestMultiply = ", finding.is_taken ? "256" : "64");
  finding.is_in_source = (kWidestMultiply > 64) == finding.is_taken;
  return {finding};
}

// Three strips by 256 rows to a block, beside two.
std::vector<Finding> TuneTiles(Tuner& tuner) {
  constexpr double kMaxRatio = 0.97;
  const ProductMemory memory(tuner, 2 * kMaxRowsOfBlock);
  const std::vector<int> all_rows =
      tuner.tiny() ? std::vector{145} : std::vector{145, 256, 512};
  Finding finding = {
      .form = "products by tiles of 192 x 256 above 144 rows",
      .threshold = absl::StrFormat(
          "the same bits, at most %.2f of those of 128 x 256 at 256 rows and "
          "never more than they",
          kMaxRatio),
      .is_taken = true};
  for (int rows : all_rows) {
    std::vector<double> us = {0, 0};
    bool same = true;
    for (const ProductMemory::Shape& shape : memory.layer) {
      if (ProductGroups(shape.outputs) != 3) continue;
      const auto with = [&](bool large) {
        return [&tuner, &memory, &shape, rows, large](int call) {
          ProductArgs args = memory.Of(shape, rows, call);
          args.tiles_are_large = large;
          tuner.Launch(KernelArgs(args));
        };
      };
      with(true)(0);
      const auto large_bits = memory.Outputs(tuner, shape, rows);
      with(false)(0);
      same &= memory.Outputs(tuner, shape, rows) == large_bits;
      const auto of_shape = tuner.Compare({with(true), with(false)});
      for (size_t i = 0; i < us.size(); ++i) us[i] += of_shape[i];
    }
    absl::StrAppendFormat(&finding.figure, "%d rows: %.1f of %.1f us%s; ", rows,
                          us[0], us[1], same ? "" : ", OTHER BITS");
    const double most = rows == kMaxRowsOfBlock ? kMaxRatio : 1.0;
    finding.is_taken &= same && us[0] <= most * us[1];
  }
  finding.line = absl::StrCat(
      kFile, "kTilesAreLarge = ", finding.is_taken ? "true" : "false");
  finding.is_in_source = kTilesAreLarge == finding.is_taken;
  return {finding};
}

// Weights that leave the L2 cache first, as parts of sums should stay there.
std::vector<Finding> TuneCache(Tuner& tuner) {
  constexpr double kMaxRatio = 0.99;
  const int rows = 65;
  const ProductMemory memory(tuner, rows);
  const std::vector<double> us = tuner.Compare(
      {[&](int call) { LaunchLayer(tuner, memory, rows, call, true); },
       [&](int call) { LaunchLayer(tuner, memory, rows, call, false); }});
  const bool is_taken = us[0] <= kMaxRatio * us[1];
  return {{.form = "weights that leave the L2 cache first",
           .figure = absl::StrFormat("a layer's products, %d rows: %.1f of "
                                     "%.1f us",
                                     rows, us[0], us[1]),
           .threshold = absl::StrFormat("at most %.2f", kMaxRatio),
           .is_taken = is_taken,
           .line = absl::StrCat(
               kFile, "kWeightsLeaveCache = ", is_taken ? "true" : "false"),
           .is_in_source = kWeightsLeaveCache == is_taken}};
}

// As many blocks as multiprocessors, which stay, beside one for each part.
std::vector<Finding> TuneBlocks(Tuner& tuner) {
  constexpr double kMaxRatio = 1.0;
  const int stay = tuner.tiny() ? 2 : kMultiprocessors;
  const ProductMemory memory(tuner, 80);
  Finding finding = {.form = "blocks that stay and take parts in turn",
                     .threshold = absl::StrFormat("at most %.2f", kMaxRatio),
                     .is_taken = true};
  for (int rows : {1, 65}) {
    const auto with = [&](int blocks) {
      return [&tuner, &memory, rows, blocks](int call) {
        ProductArgs args = memory.Of(memory.head, rows, call);
        args.most_blocks = blocks;
        tuner.Launch(KernelArgs(args));
      };
    };
    const std::vector<double> us =
        tuner.Compare({with(stay), with(kAllBlocks)});
    absl::StrAppendFormat(&finding.figure,
                          "the head, %d rows: %.1f of %.1f us; ", rows, us[0],
                          us[1]);
    finding.is_taken &= us[0] <= kMaxRatio * us[1];
  }
  finding.line = absl::StrCat(
      kFile,
      "kProductBlocks = ", finding.is_taken ? "kMultiprocessors" : "1 << 30");
  finding.is_in_source =
      (kProductBlocks == kMultiprocessors) == finding.is_taken;
  return {finding};
}

// What it would save at most if blocks of a cluster brought rows once for all
// of them: products whose rows are not brought.
std::vector<Finding> TuneClusters(Tuner& tuner) {
  constexpr double kMinGain = 0.03;
  constexpr int kRows = 65;
  const ProductMemory memory(tuner, 256);
  const std::vector<int> all_rows =
      tuner.tiny() ? std::vector{kRows} : std::vector{64, kRows, 256};
  Finding finding = {
      .form = "clusters whose blocks share rows",
      .threshold = absl::StrFormat("rows cost %.0f %% of products at %d rows",
                                   100 * kMinGain, kRows)};
  for (int rows : all_rows) {
    const auto layer = [&](bool rowless) {
      return [&tuner, &memory, rows, rowless](int call) {
        for (const ProductMemory::Shape& shape : memory.layer) {
          ProductArgs args = memory.Of(shape, rows, call);
          args.most_blocks = kAllBlocks;
          tuner.Launch(rowless ? Variant(RowlessProductArgs{args})
                               : Variant(KernelArgs(args)));
        }
      };
    };
    const std::vector<double> us = tuner.Compare({layer(true), layer(false)});
    absl::StrAppendFormat(&finding.figure,
                          "a layer of %d rows: %.1f without rows, %.1f us with "
                          "them; ",
                          rows, us[0], us[1]);
    if (rows == kRows) finding.is_taken = us[0] <= (1 - kMinGain) * us[1];
  }
  finding.line = finding.is_taken
                     ? "common/cuda/kernels/product.h: BringTiles may become "
                       "copies for a cluster"
                     : "common/cuda/kernels/product.h: BringTiles, each block "
                       "for itself";
  finding.is_in_source = !finding.is_taken;
  return {finding};
}

// Norms of 512 threads, which leave a product room, beside 1024.
std::vector<Finding> TuneNorms(Tuner& tuner) {
  constexpr double kMaxRatio = 1.0;
  const int rows = 65;
  const ProductMemory memory(tuner, rows);
  const int hidden = memory.hidden;
  const auto x = tuner.New<float>(int64_t{rows} * hidden);
  const auto weight = tuner.NewOf(std::vector<float>(hidden, 1.0f));
  const auto normed = tuner.New<unsigned char>(
      static_cast<int64_t>(ActivationBytes(rows, hidden)));
  // o, norm, gate and up, down, norm.
  const auto with = [&](bool wide) {
    return [&, wide](int call) {
      for (size_t i = 1; i < memory.layer.size(); ++i) {
        const ProductMemory::Shape& shape = memory.layer[i];
        tuner.Launch(KernelArgs(memory.Of(shape, rows, call)));
        if (shape.gated) continue;
        const ResidualNormArgs norm = {
            .x = x.data(),
            .parts = {.values = memory.parts.data(),
                      .splits = ProductSplits(shape.outputs, shape.inputs),
                      .padded_rows = PaddedRows(rows),
                      .outputs = shape.outputs},
            .rows = rows,
            .hidden = hidden,
            .weight = weight.data(),
            .epsilon = 1e-6f,
            .out = normed.data(),
            .out_block = RowBlock(rows)};
        tuner.Launch(wide ? Variant(WideNormArgs{norm})
                          : Variant(KernelArgs(norm)));
      }
    };
  };
  const std::vector<double> us = tuner.Compare({with(false), with(true)});
  const bool is_taken = us[0] <= kMaxRatio * us[1];
  return {
      {.form = "norms of 512 threads",
       .figure = absl::StrFormat("o, norm, gate, down, norm, %d rows: %.1f "
                                 "of %.1f us",
                                 rows, us[0], us[1]),
       .threshold = absl::StrFormat("at most %.2f of those of 1024", kMaxRatio),
       .is_taken = is_taken,
       .line =
           absl::StrCat("common/cuda/kernel_args.h: kMaxNormThreads = ",
                        is_taken ? "512" : "1024, and kKernelBits is raised"),
       .is_in_source = (kMaxNormThreads == 512) == is_taken}};
}

}  // namespace espalier::cuda
