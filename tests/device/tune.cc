// Measures forms of kernels that only a GPU can decide about, and names the
// decision on each.
//
//   device_tune [--device cuda|emulated] [--json FILE] [EXPERIMENT...]
//
// A paragraph for each finding, and an object of the file.
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/cuda/cuda_device.h"
#include "common/cuda/open_emulated_device.h"
#include "nlohmann/json.hpp"
#include "tests/device/bench_flags.h"
#include "tests/device/tuner.h"

#if !defined(ESPALIER_HAS_NVCC)
namespace espalier::cuda {
int OpenGpuQueue(void**) { return 1; }
int LaunchOnGpu(void*, const Variant&) { return 1; }
int WaitForGpu(void*) { return 1; }
}  // namespace espalier::cuda
#endif

namespace espalier::cuda {
namespace {

const std::vector<std::pair<std::string, Experiment>>& Experiments() {
  static const auto* const all =
      new std::vector<std::pair<std::string, Experiment>>{
          {"widths", TuneWidths},      {"tiles", TuneTiles},
          {"cache", TuneCache},        {"blocks", TuneBlocks},
          {"norms", TuneNorms},        {"sums", TuneSums},
          {"chunks", TuneChunks},      {"clusters", TuneClusters},
          {"hand_over", TuneHandOver}, {"mail", TuneMail},
          {"chain", TuneChain},        {"hints", TuneHints}};
  return *all;
}

void Report(const std::string& name, const Finding& finding,
            std::ofstream& file) {
  const std::string figure(absl::StripSuffix(finding.figure, "; "));
  const char* const decision = finding.is_taken ? "take" : "leave";
  std::cout << absl::StrFormat(
                   "%-7s %-5s %s\n              %s\n              wanted: %s\n"
                   "              %s: %s\n",
                   name, decision, finding.form, figure, finding.threshold,
                   finding.is_in_source ? "as it is" : "to change",
                   finding.line)
            << std::flush;
  if (!file.is_open()) return;
  file << nlohmann::ordered_json{{"experiment", name},
                                 {"form", finding.form},
                                 {"figure", figure},
                                 {"threshold", finding.threshold},
                                 {"decision", decision},
                                 {"line", finding.line},
                                 {"is_in_source", finding.is_in_source}}
              .dump()
       << std::endl;
}

int Main(int argc, char** argv) {
  const BenchFlags flags(argc, argv);
  const bool emulated = flags.emulated;
  auto opened = emulated ? OpenEmulatedDevice() : OpenCudaDevice(0);
  if (!opened.ok()) {
    std::cerr << opened.status().message() << std::endl;
    return 1;
  }
  Tuner tuner(*std::move(opened), OpenVariantQueue(emulated), emulated);
  std::ofstream file(flags.json);
  for (const auto& [name, experiment] : Experiments()) {
    if (!flags.names.empty() && !flags.names.contains(name)) continue;
    for (const Finding& finding : experiment(tuner)) {
      Report(name, finding, file);
    }
  }
  return 0;
}

}  // namespace
}  // namespace espalier::cuda

int main(int argc, char** argv) { return espalier::cuda::Main(argc, argv); }
