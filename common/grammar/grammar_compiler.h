#ifndef ESPALIER_COMMON_GRAMMAR_GRAMMAR_COMPILER_H_
#define ESPALIER_COMMON_GRAMMAR_GRAMMAR_COMPILER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/grammar/grammar.h"

namespace espalier::grammar {

// Compiles grammars on threads of its own and keeps those that were asked for
// most recently, refusals among them. What takes much work is put off: the
// first thread alone compiles it, so that it is in nobody's way. A text that
// takes too much work, or too long, is stopped and refused. Thread-safe.
class GrammarCompiler {
 public:
  struct Limits {
    int64_t cache_bytes = 128 << 20;
    absl::Duration time = absl::Seconds(10);  // to wait, and again to compile
    int threads = 2;
    int64_t waiting = 64;  // texts that no thread has begun
    // The work of a text: before it is put off, and in all. The second limit is
    // some seconds.
    int64_t quick_work = 10'000'000;
    int64_t work = Backend::CompileLimit().work;
  };
  using Compiled = absl::StatusOr<std::shared_ptr<const Grammar>>;
  using Done = absl::AnyInvocable<void(const Compiled&) &&>;
  using NewExecutor = std::function<std::unique_ptr<Executor>(std::string)>;

  // `new_executor` makes a thread of this name.
  GrammarCompiler(std::shared_ptr<const Backend> backend, const Limits& limits,
                  const NewExecutor& new_executor = NewThread);
  // Stops what is being compiled; answers all that wait UNAVAILABLE.
  ~GrammarCompiler();

  // `done` runs once: before Get returns if the answer is there, else on
  // another thread. Errors are FieldErrors of Backend::Compile and for the
  // limits, and RESOURCE_EXHAUSTED if every thread is busy for too long.
  void Get(const GrammarSpec& spec, Done done);

 private:
  struct Text {
    GrammarSpec spec;
    uint64_t ticket = 0;  // of its present state
    bool is_known = false;
    bool is_heavy = false;           // it was put off
    std::vector<Done> waiting = {};  // until it is known
    Executor::Timer timer = {};
    // Stops its compilation; null: it has not begun.
    std::shared_ptr<std::atomic<bool>> stop = nullptr;
    Compiled compiled = nullptr;                // if known, and what follows
    int64_t bytes = 0;                          // that it counts for
    std::list<std::string>::iterator use = {};  // in uses_
  };

  static std::unique_ptr<Executor> NewThread(std::string name);

  // Returns the answer, if it can be given now; otherwise takes `done`.
  std::optional<Compiled> AnswerOrWait(const GrammarSpec& spec, Done& done)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A text that a thread begins now.
  struct Task {
    size_t thread;
    std::string key;
    GrammarSpec spec = {};
    uint64_t ticket = 0;
    int64_t work = 0;
    std::shared_ptr<const std::atomic<bool>> stop = nullptr;
  };
  std::optional<Task> NextTask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers are given without the lock.
  void StartNext() ABSL_LOCKS_EXCLUDED(mutex_);
  void Run(const Task& task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns whether the text takes more than quick_work, and waits again.
  bool PutOff(const Task& task) ABSL_LOCKS_EXCLUDED(mutex_);
  void RefuseLater(const std::string& key, absl::Status refusal, Text& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unless the text is known, or `ticket` is not its ticket. An answer that may
  // be another one next time is not kept.
  void Settle(const std::string& key, uint64_t ticket, const Compiled& compiled)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Keep(const std::string& key, Text& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<const Backend> backend_;
  const Limits limits_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, Text> texts_ ABSL_GUARDED_BY(mutex_);
  std::list<std::string> uses_ ABSL_GUARDED_BY(mutex_);  // latest first
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::string> queue_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> heavy_ ABSL_GUARDED_BY(mutex_);  // put off
  std::vector<size_t> idle_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  std::unique_ptr<Executor> clock_;
  std::vector<std::unique_ptr<Executor>> threads_;
};

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_GRAMMAR_COMPILER_H_
