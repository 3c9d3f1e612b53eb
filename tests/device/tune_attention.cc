// What attention could be.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"
#include "tests/device/tuner.h"

namespace espalier::cuda {
namespace {

constexpr int kDim = 128;

// The attention of rows over the whole pages of a prefix. A chunk's length
// follows from the numbers of its pages (ChunkOf), so chunks of two lengths are
// compared at two places of a long text.
class PrefixMemory {
 public:
  PrefixMemory(Tuner& tuner, int rows, int kv_heads, int group, int all_pages)
      : rows_(rows),
        kv_heads_(kv_heads),
        group_(group),
        page_bytes_(PanelOffset(kDim, kv_heads, 1, 0, 0)),
        sequences_(tuner.NewOf(std::vector<PassSequence>{
            {.prefix = all_pages * kPagePositions, .rows = rows}})),
        table_(tuner.NewOf(PageTable(all_pages))),
        pages_(tuner.NewRandom(kPoolPages * page_bytes_)),
        queries_(tuner.NewRandom(int64_t{2} * rows * kv_heads * group * kDim)),
        states_(tuner.New<float>(int64_t{ChunkOf(all_pages) + 1} * kv_heads *
                                 rows * group * (kDim + 2))) {}

  // Returns the items of the pages from `first` on.
  DeviceArray<PrefixItem> Items(Tuner& tuner, int first, int pages) const {
    std::vector<PrefixItem> items;
    for (int chunk = ChunkOf(first); chunk <= ChunkOf(first + pages - 1);
         ++chunk) {
      for (int query = 0; query < rows_ * group_; query += kPrefixItemQueries) {
        items.push_back({.chunk = chunk, .first_query = query});
      }
    }
    return tuner.NewOf(items);
  }

  PrefixArgs Of(const DeviceArray<PrefixItem>& items) const {
    return {{.queries = reinterpret_cast<const bf16_t*>(queries_.data()),
             .kv = {pages_.data(), page_bytes_, table_.data()},
             .sequences = sequences_.data(),
             .prefix_items = items.data(),
             .num_prefix_items = static_cast<int>(items.size()),
             .kv_heads = kv_heads_,
             .group = group_,
             .head_dim = kDim,
             .scale = AttendScale(kDim),
             .states = states_.data()}};
  }

 private:
  static constexpr int kPoolPages = 16;

  static std::vector<int32_t> PageTable(int pages) {
    std::vector<int32_t> table(pages);
    std::iota(table.begin(), table.end(), 0);
    for (int32_t& page : table) page %= kPoolPages;
    return table;
  }

  const int rows_, kv_heads_, group_;
  const int64_t page_bytes_;
  const DeviceArray<PassSequence> sequences_;
  const DeviceArray<int32_t> table_;
  const DeviceArray<unsigned char> pages_;
  const DeviceArray<unsigned char> queries_;
  const DeviceArray<float> states_;
};

const char* NameOf(Numbers numbers) {
  switch (numbers) {
    case Numbers::kLikeWeights:
      return "like weights";
    case Numbers::kFarApart:
      return "2^60 apart";
    case Numbers::kDenormal:
      return "denormal";
    case Numbers::kCancelling:
      return "that cancel";
  }
  return "";
}

}  // namespace

// Sixteen pages, a text of 1,024 tokens, as chunks of four and of eight.
std::vector<Finding> TuneChunks(Tuner& tuner) {
  constexpr double kMaxRatio = 0.9;
  const int rows = tuner.tiny() ? 5 : 65, kv_heads = tuner.tiny() ? 1 : 8;
  const int pages = tuner.tiny() ? 8 : 16;
  const PrefixMemory memory(tuner, rows, kv_heads, /*group=*/4,
                            kShortPages + pages);
  const auto of_eight = memory.Items(tuner, kShortPages, pages);
  const auto of_four = memory.Items(tuner, 0, pages);
  const std::vector<double> us =
      tuner.Compare({[&](int) { tuner.Launch(memory.Of(of_eight)); },
                     [&](int) { tuner.Launch(memory.Of(of_four)); }});
  const bool is_taken = us[0] <= kMaxRatio * us[1];
  return {{.form = "chunks of eight pages at the beginning of a text",
           .figure = absl::StrFormat("%d pages, %d rows: %.1f of %.1f us",
                                     pages, rows, us[0], us[1]),
           .threshold =
               absl::StrFormat("at most %.2f of chunks of four", kMaxRatio),
           .is_taken = is_taken,
           .line = is_taken ? "common/cuda/layout.h: kShortChunkPages = 8, and "
                              "kKernelBits is raised"
                            : "common/cuda/layout.h: kShortChunkPages = 4",
           .is_in_source = (kShortChunkPages == 8) == is_taken}};
}

// Whether attention over prefixes may multiply by warpgroups: a position is in
// a tree's page in one round, and in a prefix in the next.
std::vector<Finding> TuneSums(Tuner& tuner) {
  const int blocks = tuner.tiny() ? 2 : 1320, seeds = tuner.tiny() ? 1 : 4;
  Finding finding = {.form = "attention over prefixes by warpgroups",
                     .threshold = "no sum differs from a warp's",
                     .is_taken = true};
  const auto count_different = [&](Numbers numbers, bool is_held) {
    const auto different = tuner.New<uint32_t>(1);
    for (int seed = 0; seed < seeds; ++seed) {
      tuner.Launch(CompareSumsArgs{.numbers = numbers,
                                   .seed = static_cast<uint32_t>(seed),
                                   .blocks = blocks,
                                   .is_held = is_held,
                                   .different = different.data()});
    }
    return tuner.ValuesOf(different)[0];
  };
  for (Numbers numbers : kAllNumbers) {
    const uint32_t shared = count_different(numbers, /*is_held=*/false);
    const uint32_t held = count_different(numbers, /*is_held=*/true);
    absl::StrAppendFormat(
        &finding.figure, "%s: %d and, queries in registers, %d of %d; ",
        NameOf(numbers), shared, held, int64_t{blocks} * seeds * kSumsOfBlock);
    finding.is_taken &= shared + held == 0;
  }
  finding.line = finding.is_taken ? "step E of the chain may follow"
                                  : "AttendPrefix stays on mma.sync";
  finding.is_in_source = !finding.is_taken;
  return {finding};
}

}  // namespace espalier::cuda
