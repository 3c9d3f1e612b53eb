#include "coordinator/api/prompt_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/speculation/request_errors.h"

namespace espalier::coordinator {
namespace {

// A MiB of text takes about a second.
absl::Duration TimeFor(int64_t work) {
  return absl::Seconds(static_cast<double>(work) * 0x1p-20);
}

}  // namespace

bool PromptQueue::Reserve(int64_t bytes) {
  const int64_t prompts = prompts_.fetch_add(1);
  const int64_t before = bytes_.fetch_add(bytes);
  // A prompt that is alone always has room.
  if (prompts == 0 || (prompts < options_.max_prompts &&
                       before + bytes <= options_.max_bytes)) {
    return true;
  }
  Release(bytes);
  return false;
}

void PromptQueue::Release(int64_t bytes) {
  bytes_.fetch_sub(bytes);
  prompts_.fetch_sub(1);
}

absl::Status PromptQueue::Post(const Prompt& prompt, Executor::Task task) {
  if (!Reserve(prompt.bytes)) {
    return WithRetryAfter(
        WithReason(
            absl::ResourceExhaustedError(absl::StrCat(
                "prompts of ", options_.max_bytes, " bytes, or ",
                options_.max_prompts, " of them, wait to be tokenized: full")),
            "PROMPT_QUEUE_FULL"),
        absl::Milliseconds(10) + TimeFor(bytes_));
  }
  const bool is_short = prompt.work <= options_.short_work;
  Lane& lane = prompt.is_chat ? (is_short ? short_chats_ : long_chats_)
                              : (is_short ? short_texts_ : long_texts_);
  lane.Post(TimeFor(prompt.work),
            [this, bytes = prompt.bytes, task = std::move(task)]() mutable {
              std::move(task)();
              task = nullptr;  // frees the prompt too
              Release(bytes);
            });
  return absl::OkStatus();
}

void PromptQueue::Lane::Post(absl::Duration work, Executor::Task task) {
  {
    MutexLock lock(&mutex_);
    waiting_.emplace(std::pair(thread_.Now() + work, next_order_++),
                     std::move(task));
  }
  thread_.Post([this] { RunFirst(); });
}

void PromptQueue::Lane::RunFirst() {
  Executor::Task task;
  {
    MutexLock lock(&mutex_);
    task = std::move(waiting_.extract(waiting_.begin()).mapped());
  }
  std::move(task)();
}

}  // namespace espalier::coordinator
