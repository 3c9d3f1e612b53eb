#include "common/grammar/grammar_compiler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/serial_executor.h"
#include "common/speculation/request_errors.h"

namespace espalier::grammar {
namespace {

std::string KeyOf(const GrammarSpec& spec) {
  std::string key = absl::StrCat(static_cast<int>(spec.kind),
                                 spec.compact ? "c" : "o", spec.text);
  for (const std::string& choice : spec.choices) {
    absl::StrAppend(&key, choice.size(), ":", choice);
  }
  return key;
}

}  // namespace

std::unique_ptr<Executor> GrammarCompiler::NewThread(std::string name) {
  return std::make_unique<SerialExecutor>(std::move(name));
}

GrammarCompiler::GrammarCompiler(std::shared_ptr<const Backend> backend,
                                 const Limits& limits,
                                 const NewExecutor& new_executor)
    : backend_(std::move(backend)),
      limits_(limits),
      clock_(new_executor("grammar clock")) {
  for (int i = 0; i < limits.threads; ++i) {
    threads_.push_back(new_executor("grammar"));
    idle_.push_back(i);
  }
}

GrammarCompiler::~GrammarCompiler() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    queue_.clear();
    heavy_.clear();
    for (auto& [key, text] : texts_) {
      if (text.stop != nullptr) *text.stop = true;
    }
  }
  threads_.clear();
  clock_.reset();
  std::vector<Done> left;
  {
    MutexLock lock(&mutex_);
    for (auto& [key, text] : texts_) {
      for (Done& done : text.waiting) left.push_back(std::move(done));
    }
  }
  for (Done& done : left) {
    std::move(done)(absl::UnavailableError("the compiler is stopping"));
  }
}

void GrammarCompiler::Get(const GrammarSpec& spec, Done done) {
  if (const auto answer = AnswerOrWait(spec, done)) {
    std::move(done)(*answer);
  } else {
    StartNext();
  }
}

std::optional<GrammarCompiler::Compiled> GrammarCompiler::AnswerOrWait(
    const GrammarSpec& spec, Done& done) {
  const std::string key = KeyOf(spec);
  MutexLock lock(&mutex_);
  const auto [found, is_new] = texts_.try_emplace(key);
  Text& text = found->second;
  if (text.is_known) {
    uses_.splice(uses_.begin(), uses_, text.use);
    return text.compiled;
  }
  const size_t waiting = queue_.size() + heavy_.size();
  if (is_new && static_cast<int64_t>(waiting) >= limits_.waiting) {
    texts_.erase(found);
    return absl::ResourceExhaustedError("too many grammars are waiting");
  }
  text.waiting.push_back(std::move(done));
  if (is_new) {
    text.spec = spec;
    queue_.push_back(key);
    RefuseLater(key,
                absl::ResourceExhaustedError(
                    "all compilers of grammars are busy for long"),
                text);
  }
  return std::nullopt;
}

void GrammarCompiler::RefuseLater(const std::string& key, absl::Status refusal,
                                  Text& text) {
  clock_->Cancel(text.timer);
  text.ticket = next_ticket_++;
  text.timer = clock_->PostAt(
      clock_->Now() + limits_.time,
      [this, key, ticket = text.ticket, refusal = std::move(refusal)] {
        Settle(key, ticket, refusal);
      });
}

std::optional<GrammarCompiler::Task> GrammarCompiler::NextTask() {
  constexpr size_t kHeavyThread = 0;
  if (stopping_) return std::nullopt;
  const auto heavy = std::find(idle_.begin(), idle_.end(), kHeavyThread);
  // If there is one thread, it does what is quick first.
  const bool takes_heavy = !heavy_.empty() && heavy != idle_.end() &&
                           (limits_.threads > 1 || queue_.empty());
  if (!takes_heavy && (queue_.empty() || idle_.empty())) return std::nullopt;
  const auto thread = takes_heavy ? heavy : idle_.end() - 1;
  std::deque<std::string>& queue = takes_heavy ? heavy_ : queue_;
  Task task = {.thread = *thread, .key = std::move(queue.front())};
  idle_.erase(thread);
  queue.pop_front();
  Text& text = texts_.at(task.key);
  text.stop = std::make_shared<std::atomic<bool>>(false);
  RefuseLater(task.key,
              FieldError(FieldOf(text.spec.kind),
                         absl::StrCat("takes more than ",
                                      absl::FormatDuration(limits_.time),
                                      " to compile: make it simpler")),
              text);
  task.spec = text.spec;
  task.ticket = text.ticket;
  task.work = takes_heavy ? limits_.work : limits_.quick_work;
  task.stop = text.stop;
  return task;
}

void GrammarCompiler::StartNext() {
  std::optional<Task> task;
  {
    MutexLock lock(&mutex_);
    task = NextTask();
  }
  if (!task) return;
  Executor& thread = *threads_[task->thread];
  thread.Post([this, task = *std::move(task)] { Run(task); });
}

void GrammarCompiler::Run(const Task& task) {
  const Compiled compiled = backend_->Compile(
      task.spec, {.work = task.work, .stop = task.stop.get()});
  if (absl::IsResourceExhausted(compiled.status())) {
    if (!PutOff(task)) {
      Settle(task.key, task.ticket,
             FieldError(FieldOf(task.spec.kind),
                        absl::StrCat(compiled.status().message(),
                                     ": make it simpler")));
    }
  } else if (!absl::IsCancelled(compiled.status())) {
    // The code that stopped a compilation answers it.
    Settle(task.key, task.ticket, compiled);
  }
  {
    MutexLock lock(&mutex_);
    idle_.push_back(task.thread);
  }
  // Both a heavy text and another may wait for this.
  StartNext();
  StartNext();
}

bool GrammarCompiler::PutOff(const Task& task) {
  MutexLock lock(&mutex_);
  const auto found = texts_.find(task.key);
  const bool waits = found != texts_.end() &&
                     found->second.ticket == task.ticket &&
                     !found->second.is_known && !stopping_;
  if (!waits || found->second.is_heavy) return false;
  Text& text = found->second;
  text.is_heavy = true;
  text.stop = nullptr;
  heavy_.push_back(task.key);
  RefuseLater(task.key,
              absl::ResourceExhaustedError(
                  "all compilers of large grammars are busy for long"),
              text);
  return true;
}

void GrammarCompiler::Settle(const std::string& key, uint64_t ticket,
                             const Compiled& compiled) {
  std::vector<Done> waiting;
  {
    MutexLock lock(&mutex_);
    const auto found = texts_.find(key);
    if (found == texts_.end()) return;
    Text& text = found->second;
    if (text.is_known || text.ticket != ticket) return;
    clock_->Cancel(text.timer);
    if (text.stop != nullptr) *text.stop = true;
    waiting.swap(text.waiting);
    text.compiled = compiled;
    if (compiled.ok() || absl::IsInvalidArgument(compiled.status())) {
      Keep(key, text);
    } else {
      texts_.erase(found);
      std::erase(queue_, key);
      std::erase(heavy_, key);
    }
  }
  for (Done& done : waiting) std::move(done)(compiled);
}

void GrammarCompiler::Keep(const std::string& key, Text& text) {
  text.is_known = true;
  text.bytes = 2 * static_cast<int64_t>(key.size());
  if (text.compiled.ok()) text.bytes += (*text.compiled)->num_bytes();
  text.spec = {};
  uses_.push_front(key);
  text.use = uses_.begin();
  bytes_ += text.bytes;
  while (bytes_ > limits_.cache_bytes) {
    const auto oldest = texts_.find(uses_.back());
    bytes_ -= oldest->second.bytes;
    texts_.erase(oldest);
    uses_.pop_back();
  }
}

}  // namespace espalier::grammar
