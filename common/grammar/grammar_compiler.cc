#include "common/grammar/grammar_compiler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/serial_executor.h"
#include "common/spec/request_errors.h"

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
    queue_.clear();
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
  if (is_new && static_cast<int64_t>(queue_.size()) >= limits_.waiting) {
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

void GrammarCompiler::StartNext() {
  size_t thread;
  std::string key;
  GrammarSpec spec;
  uint64_t ticket;
  {
    MutexLock lock(&mutex_);
    if (idle_.empty() || queue_.empty()) return;
    key = std::move(queue_.front());
    queue_.pop_front();
    thread = idle_.back();
    idle_.pop_back();
    Text& text = texts_.at(key);
    spec = text.spec;
    RefuseLater(key,
                FieldError(FieldOf(spec.kind),
                           absl::StrCat("takes more than ",
                                        absl::FormatDuration(limits_.time),
                                        " to compile: make it simpler")),
                text);
    ticket = text.ticket;
  }
  threads_[thread]->Post([this, thread, key, spec, ticket] {
    Settle(key, ticket, backend_->Compile(spec));
    {
      MutexLock lock(&mutex_);
      idle_.push_back(thread);
    }
    StartNext();
  });
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
    waiting.swap(text.waiting);
    text.compiled = compiled;
    if (compiled.ok() || absl::IsInvalidArgument(compiled.status())) {
      Keep(key, text);
    } else {
      texts_.erase(found);
      queue_.erase(std::remove(queue_.begin(), queue_.end(), key),
                   queue_.end());
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
