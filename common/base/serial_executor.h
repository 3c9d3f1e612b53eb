#ifndef ESPALIER_COMMON_BASE_SERIAL_EXECUTOR_H_
#define ESPALIER_COMMON_BASE_SERIAL_EXECUTOR_H_

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"

namespace espalier {

// An Executor with a thread of its own. Sleeps while nothing is due.
class SerialExecutor final : public Executor {
 public:
  // `name` is what a debugger and top(1) show for the thread (15 characters).
  explicit SerialExecutor(std::string name);
  // Runs what is due, drops what is not, joins. Must not run on the thread.
  ~SerialExecutor() override;

  void Post(Task task) override;
  void PostAt(absl::Time when, Task task) override;
  absl::Time Now() const override { return absl::Now(); }

 private:
  struct Entry {
    absl::Time when;
    uint64_t order;  // first posted first among equals
    Task task;
  };
  static bool Later(const Entry& a, const Entry& b);

  void Run();
  // Until the first task is due, another comes first, or it is time to stop.
  void Sleep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::vector<Entry> heap_ ABSL_GUARDED_BY(mutex_);  // earliest on top
  uint64_t next_order_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_SERIAL_EXECUTOR_H_
