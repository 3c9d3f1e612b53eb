// A library that the CUDA driver loads into a program (CUDA_INJECTION64_PATH):
// writes when each kernel began and ended, a line of a file for each:
//
//   BEGIN END GRID_X GRID_Y NAME      nanoseconds; the name is mangled
//
// KERNEL_TRACE names the file. Kernels run as they do otherwise, beside each
// other where they may.
#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

constexpr size_t kBufferBytes = 8 << 20;

std::FILE* file = nullptr;  // guarded by `mutex` once kernels run
std::mutex mutex;

void NewBuffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

void WriteBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t used) {
  const std::lock_guard<std::mutex> lock(mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, used, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* kernel = reinterpret_cast<CUpti_ActivityKernel10*>(record);
    std::fprintf(file, "%llu %llu %d %d %s\n",
                 static_cast<unsigned long long>(kernel->start),
                 static_cast<unsigned long long>(kernel->end), kernel->gridX,
                 kernel->gridY, kernel->name);
  }
  std::free(buffer);
}

void Finish() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard<std::mutex> lock(mutex);
  std::fclose(file);
}

}  // namespace

// The driver looks for this name. Returns whether the library is of use.
extern "C" int InitializeInjection() {
  const char* const path = std::getenv("KERNEL_TRACE");
  file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr ||
      cuptiActivityRegisterCallbacks(NewBuffer, WriteBuffer) != CUPTI_SUCCESS ||
      cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) !=
          CUPTI_SUCCESS) {
    std::fputs("kernel_trace: no trace\n", stderr);
    return 0;
  }
  std::atexit(Finish);
  return 1;
}
