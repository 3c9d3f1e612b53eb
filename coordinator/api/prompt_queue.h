#ifndef ESPALIER_COORDINATOR_API_PROMPT_QUEUE_H_
#define ESPALIER_COORDINATOR_API_PROMPT_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/base/serial_executor.h"

namespace espalier::coordinator {

// Tokenizes prompts on threads of its own, apart from gRPC's and the
// coordinator's: one for texts and one for chats, which are rendered first, and
// of each one for prompts that take long, so that what is short waits for short
// ones only. On each thread a prompt waits as if it came later by the time that
// it takes, so that many expensive ones do not hold up a cheap one, and none
// waits for ever. Thread-safe.
class PromptQueue {
 public:
  struct Options {
    int64_t max_bytes = 0;       // of all prompts, waiting or in work
    int64_t max_prompts = 4096;  // waiting or in work
    int64_t short_work = int64_t{32} << 10;  // about 30 ms
  };
  explicit PromptQueue(const Options& options) : options_(options) {}

  struct Prompt {
    int64_t bytes = 0;
    // How much work it is, in bytes of a text that takes as long.
    int64_t work = 0;
    bool is_chat = false;
  };

  // Runs `task` later. If the result is OK, `task` always runs; otherwise it
  // never does. RESOURCE_EXHAUSTED with a delay: too many prompts wait.
  absl::Status Post(const Prompt& prompt, Executor::Task task);

 private:
  // A thread and what waits for it, in the order in which it is to run.
  class Lane {
   public:
    explicit Lane(std::string name) : thread_(std::move(name)) {}
    void Post(absl::Duration work, Executor::Task task);

   private:
    void RunFirst();

    Mutex mutex_;
    uint64_t next_order_ ABSL_GUARDED_BY(mutex_) = 0;
    std::map<std::pair<absl::Time, uint64_t>, Executor::Task> waiting_
        ABSL_GUARDED_BY(mutex_);
    SerialExecutor thread_;  // last: it finishes its work first
  };

  bool Reserve(int64_t bytes);
  void Release(int64_t bytes);

  const Options options_;
  std::atomic<int64_t> bytes_ = 0;
  std::atomic<int64_t> prompts_ = 0;
  // Last members: they finish their work before the others are destroyed.
  Lane short_texts_{"prompts"};
  Lane long_texts_{"long prompts"};
  Lane short_chats_{"chats"};
  Lane long_chats_{"long chats"};
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_PROMPT_QUEUE_H_
