#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/cuda/chain_shape.h"
#include "common/cuda/cuda_device.h"
#include "common/cuda/emulated_device.h"
#include "tests/device/chain_timing.h"
#include "tests/device/tuner.h"

namespace espalier::cuda {
namespace {

// Returns a device that runs chains, whatever the source says of them.
absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenForChains(bool emulated) {
  if (!emulated) return OpenCudaDevice(0, {.runs_chains = true});
  return std::make_unique<EmulatedDevice>(
      EmulatedDevice::Options{.resident_blocks = 132});
}

[[noreturn]] void Fail(const absl::Status& status) {
  std::cerr << "chain: " << status << std::endl;
  std::exit(1);
}

// Whole layers, with attention inside their chains or launched before them.
Finding TuneAttendingChain(ComputeDevice& device, bool tiny) {
  constexpr double kMinGain = 4;  // us of a layer of 65 rows
  constexpr int kRows = 65;
  const ChainLayer shape =
      tiny ? ChainLayer{128, 128, 192, 256} : kQwen3ChainLayer;
  const ChainAttention attention =
      tiny ? ChainAttention{1, 2, 64, 70} : kQwen3ChainAttention;
  const int layers = tiny ? 2 : 12, turns = tiny ? 1 : 31;
  Finding finding = {
      .form = "attention in the chain in place of launches before it",
      .threshold = absl::StrFormat("%.0f us less at %d rows, the same bits",
                                   kMinGain, kRows)};
  bool same_bits = true;
  for (const int rows : {1, 16, kRows}) {
    const auto times =
        TimeChains(device, shape, layers, rows, turns, &attention);
    if (!times.ok()) Fail(times.status());
    same_bits &= times->same_bits;
    absl::StrAppendFormat(&finding.figure,
                          "a layer of %d rows: %.1f of %.1f us, launched "
                          "%.1f us%s; ",
                          rows, times->attending_us, times->chain_us,
                          times->launches_us,
                          times->same_bits ? "" : ", OTHER BITS");
    finding.is_taken =
        same_bits && times->chain_us - times->attending_us >= kMinGain;
  }
  finding.line = absl::StrCat("common/cuda/chain_shape.h: kChainsAttend = ",
                              finding.is_taken ? "true" : "false");
  finding.is_in_source = kChainsAttend == finding.is_taken;
  return finding;
}

// Forms that are timed beside each other: the first two with the whole ring.
struct FormOfLayer {
  const char* name;
  bool has_hints;
  int pages;
};
constexpr FormOfLayer kForms[] = {
    {"", false, 0},          {"with hints", true, 0},
    {"16 pages", false, 16}, {"16 pages with hints", true, 16},
    {"12 pages", false, 12}, {"12 pages with hints", true, 12},
};

// Times layers with attention in so many of the forms.
FormTimes TimeFirstForms(Tuner& tuner, ComputeDevice& device, int rows,
                         int count) {
  const bool tiny = tuner.tiny();
  const ChainAttention attention =
      tiny ? ChainAttention{1, 1, 128, 200} : kQwen3ChainAttention;
  const ChainLayer shape =
      tiny ? ChainLayer{128, 128, 192, 384} : kQwen3ChainLayer;
  LayerForms forms = {.launches = {},
                      .wait = [&tuner] { tuner.WaitForLaunches(); }};
  for (const FormOfLayer& form : absl::MakeSpan(kForms).subspan(0, count)) {
    forms.launches.emplace_back([&tuner, form](const LayerChainArgs& layer) {
      tuner.Launch(LayerFormArgs{layer, form.has_hints, form.pages});
    });
  }
  auto times = TimeForms(device, shape, tiny ? 2 : 12, rows, tiny ? 1 : 31,
                         attention, forms);
  if (!times.ok()) Fail(times.status());
  return *std::move(times);
}

// Returns the other forms' times behind the first one's.
std::string Described(const FormTimes& times, int rows) {
  std::string text =
      absl::StrFormat("a layer of %d rows: %.1f us", rows, times.us[0]);
  for (size_t i = 1; i < times.us.size(); ++i) {
    absl::StrAppendFormat(&text, ", %s %.1f", kForms[i].name, times.us[i]);
  }
  return absl::StrCat(text, times.same_bits ? "; " : ", OTHER BITS; ");
}

}  // namespace

// Experiment 4 of the study: layers without attention, all of them as chains.
std::vector<Finding> TuneChain(Tuner& tuner) {
  constexpr double kMinGain = 8;  // us of a layer of 65 rows
  constexpr int kRows = 65;
  const ChainLayer shape =
      tuner.tiny() ? ChainLayer{64, 128, 192, 192} : kQwen3ChainLayer;
  const int layers = tuner.tiny() ? 2 : 12, turns = tuner.tiny() ? 1 : 31;
  const auto device = OpenForChains(tuner.tiny());
  if (!device.ok()) Fail(device.status());
  Finding finding = {
      .form = "the chain in place of launches",
      .threshold = absl::StrFormat("%.0f us less at %d rows", kMinGain, kRows)};
  for (const int rows : {1, 16, kRows}) {
    const auto times = TimeChains(**device, shape, layers, rows, turns);
    if (!times.ok()) Fail(times.status());
    absl::StrAppendFormat(&finding.figure,
                          "a layer of %d rows: %.1f of %.1f us%s; ", rows,
                          times->chain_us, times->launches_us,
                          times->same_bits ? "" : ", OTHER BITS");
    finding.is_taken = times->launches_us - times->chain_us >= kMinGain;
  }
  finding.line = absl::StrCat("common/cuda/chain_shape.h: kRunsChains = ",
                              finding.is_taken ? "true" : "false");
  finding.is_in_source = kRunsChains == finding.is_taken;
  return {finding, TuneAttendingChain(**device, tuner.tiny())};
}

// Experiment 7: the weights that lie ready behind attention, in the L2 cache
// and in rings of some sizes.
std::vector<Finding> TuneHints(Tuner& tuner) {
  constexpr double kMinGain = 2;  // us of a layer of 65 rows
  constexpr int kRows = 65;
  const auto device = OpenForChains(tuner.tiny());
  if (!device.ok()) Fail(device.status());
  const FormTimes one = TimeFirstForms(tuner, **device, 1, 2);
  const FormTimes many =
      TimeFirstForms(tuner, **device, kRows, std::size(kForms));
  Finding finding = {
      .form = "hints at weights while attention runs in the chain",
      .figure = Described(one, 1) + Described(many, kRows),
      .threshold = absl::StrFormat("%.0f us less at %d rows, the same bits",
                                   kMinGain, kRows),
      .is_taken = one.same_bits && many.same_bits &&
                  many.us[0] - many.us[1] >= kMinGain};
  finding.line = absl::StrCat("common/cuda/chain_shape.h: kHintsWeights = ",
                              finding.is_taken ? "true" : "false");
  finding.is_in_source = kHintsWeights == finding.is_taken;
  return {finding};
}

}  // namespace espalier::cuda
