#include "coordinator/prompt_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/spec/request_errors.h"

namespace espalier::coordinator {

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

absl::Status PromptQueue::Post(int64_t bytes, Executor::Task work) {
  if (!Reserve(bytes)) {
    return WithRetryAfter(
        WithReason(
            absl::ResourceExhaustedError(absl::StrCat(
                "prompts of ", options_.max_bytes, " bytes, or ",
                options_.max_prompts, " of them, wait to be tokenized: full")),
            "PROMPT_QUEUE_FULL"),
        // A MiB takes about a second.
        absl::Milliseconds(10) + absl::Seconds(bytes_.load() * 0x1p-20));
  }
  SerialExecutor& thread = bytes <= options_.short_bytes ? short_ : long_;
  thread.Post([this, bytes, work = std::move(work)]() mutable {
    std::move(work)();
    work = nullptr;  // frees the prompt too
    Release(bytes);
  });
  return absl::OkStatus();
}

}  // namespace espalier::coordinator
