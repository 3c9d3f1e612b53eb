// Times layers without attention as chains beside the same kernels launched one
// by one, in the shape of Qwen3-8B; emulated, in a tiny one, where times mean
// nothing.
//
//   chain_bench [--device cuda|emulated] [ROWS...]
//
// A line for each number of rows, then all of them as JSON. Exit status 1: bits
// differ, or something failed.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/cuda/cuda_device.h"
#include "common/cuda/emulated_device.h"
#include "nlohmann/json.hpp"
#include "tests/device/chain_timing.h"

namespace espalier::cuda {
namespace {

absl::Status Run(bool is_emulated, const std::vector<int>& all_rows) {
  std::unique_ptr<ComputeDevice> device;
  if (is_emulated) {
    device = std::make_unique<EmulatedDevice>(
        EmulatedDevice::Options{.resident_blocks = 132});
  } else {
    ASSIGN_OR_RETURN(device, OpenCudaDevice(0, {.runs_chains = true}));
  }
  const ChainLayer tiny = {64, 128, 192, 192};
  auto lines = nlohmann::ordered_json::array();
  bool same = true;
  std::cout << absl::StrFormat("%5s %14s %14s\n", "rows", "launches us/layer",
                               "chain us/layer");
  for (const int rows : all_rows) {
    ASSIGN_OR_RETURN(
        const ChainTimes times,
        TimeChains(*device, is_emulated ? tiny : kQwen3ChainLayer,
                   is_emulated ? 2 : 12, rows, is_emulated ? 1 : 31));
    std::cout << absl::StrFormat("%5d %17.2f %14.2f%s\n", rows,
                                 times.launches_us, times.chain_us,
                                 times.same_bits ? "" : "  BITS DIFFER");
    lines.push_back({{"what", absl::StrFormat("layer of %d rows", rows)},
                     {"launches_us", times.launches_us},
                     {"chain_us", times.chain_us},
                     {"ok", times.same_bits}});
    same = same && times.same_bits;
  }
  std::cout << lines.dump() << std::endl;
  return same ? absl::OkStatus() : absl::InternalError("bits differ");
}

int Main(int argc, char** argv) {
  bool is_emulated = false;
  std::vector<int> all_rows;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    int rows = 0;
    if (absl::SimpleAtoi(arg, &rows) && rows >= 1) {
      all_rows.push_back(rows);
    } else if (arg == "--device" && i + 1 < argc) {
      is_emulated = argv[++i] == std::string("emulated");
    } else {
      std::cerr << "chain_bench: " << arg << "?" << std::endl;
      return 2;
    }
  }
  if (all_rows.empty()) all_rows = {1, 16, 65, 129};
  const absl::Status status = Run(is_emulated, all_rows);
  if (!status.ok()) std::cerr << status << std::endl;
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace espalier::cuda

int main(int argc, char** argv) { return espalier::cuda::Main(argc, argv); }
