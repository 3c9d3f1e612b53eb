#ifndef ESPALIER_COORDINATOR_PROMPT_QUEUE_H_
#define ESPALIER_COORDINATOR_PROMPT_QUEUE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "common/base/executor.h"
#include "common/base/serial_executor.h"

namespace espalier::coordinator {

// Tokenizes prompts on two threads, apart from gRPC's and the coordinator's:
// one for short prompts and one for long ones, so that a short prompt waits for
// short ones only. Each thread takes prompts in the order of arrival.
// Thread-safe.
class PromptQueue {
 public:
  struct Options {
    int64_t max_bytes = 0;       // of all prompts, waiting or in work
    int64_t max_prompts = 4096;  // waiting or in work
    int64_t short_bytes = int64_t{32} << 10;  // about 30 ms of work
  };
  explicit PromptQueue(const Options& options) : options_(options) {}

  // Runs `work` later, for a prompt of `bytes` bytes. If the result is OK,
  // `work` always runs; otherwise it never does. RESOURCE_EXHAUSTED with a
  // delay: too many prompts wait.
  absl::Status Post(int64_t bytes, Executor::Task work);

 private:
  bool Reserve(int64_t bytes);
  void Release(int64_t bytes);

  const Options options_;
  std::atomic<int64_t> bytes_ = 0;
  std::atomic<int64_t> prompts_ = 0;
  // Last members: they finish their work before the others are destroyed.
  SerialExecutor short_{"prompts"};
  SerialExecutor long_{"long prompts"};
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PROMPT_QUEUE_H_
