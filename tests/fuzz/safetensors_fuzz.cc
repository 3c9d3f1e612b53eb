#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/base/check.h"
#include "common/model/files/safetensors.h"
#include "common/model/files/tensor_values.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/memory_file.h"
#include "tests/testing/tiny_model.h"

namespace espalier::testing {
namespace safetensors_fuzz {

std::vector<std::string> Seeds() {
  MemoryFile file("");
  WriteSafetensors(
      file.path(),
      {{"alpha", {.shape = {2, 3}, .values = std::vector<float>(6, 1)}},
       {"beta", {.shape = {4}, .values = std::vector<float>(4, 2)}},
       {"ids", {.shape = {2}, .integers = {1, 2}}}});
  std::ifstream in(file.path(), std::ios::binary);
  return {std::string(std::istreambuf_iterator<char>(in), {})};
}

bool Try(std::string_view bytes) {
  const MemoryFile memory(bytes);
  const auto file = SafetensorsFile::Open(memory.path());
  if (!file.ok()) return false;
  for (const auto& [name, view] : file->tensors()) {
    ESPALIER_CHECK(view.data.size() <= bytes.size());
    const auto values = TensorValues::Of(name, view);
    if (!values.ok()) continue;
    std::vector<float> row(values->columns());
    for (int64_t i = 0; i < values->rows(); ++i) values->Row(i, row.data());
  }
  return true;
}

}  // namespace safetensors_fuzz

FuzzTarget SafetensorsTarget() {
  return {"safetensors", safetensors_fuzz::Seeds, safetensors_fuzz::Try};
}

}  // namespace espalier::testing
