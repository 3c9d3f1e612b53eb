#include "coordinator/http/called_answer.h"

#include <string>
#include <utility>

namespace espalier::coordinator {

std::string CalledAnswer::Pull() {
  std::string events;
  for (size_t i = 0; i < options_.calls.size(); ++i) {
    while (const auto message = options_.calls[i]->Take()) {
      events += options_.writer->Add(i, *message);
    }
  }
  return events;
}

std::optional<absl::Status> CalledAnswer::Ended() const {
  bool all = true;
  for (const auto& call : options_.calls) {
    const std::optional<absl::Status> end = call->End();
    if (end && !end->ok()) return WithClientNames(*end, options_.names);
    all &= end.has_value();
  }
  if (!all) return std::nullopt;
  return absl::OkStatus();
}

std::optional<http::Answer::Head> CalledAnswer::Begin() {
  std::string events = Pull();
  const std::optional<absl::Status> end = Ended();
  if (events.empty() || !options_.stream) {
    if (!end) return std::nullopt;
    if (!end->ok()) return Head{ErrorResponse(*end, options_.error)};
  }
  Head head = {.response = {.headers = options_.headers},
               .is_stream = options_.stream};
  if (options_.stream) {
    head.response.content_type = "text/event-stream; charset=utf-8";
    head.response.headers.emplace_back("Cache-Control", "no-cache");
    // For proxies that would collect the stream.
    head.response.headers.emplace_back("X-Accel-Buffering", "no");
    head.response.body = std::move(events);
  } else {
    head.response.body = options_.writer->Finish();
    options_.calls.clear();
  }
  return head;
}

std::optional<std::string> CalledAnswer::Next() {
  if (finished_) return "";
  std::string events = Pull();
  if (const std::optional<absl::Status> end = Ended()) {
    finished_ = true;
    events +=
        end->ok() ? options_.writer->Finish() : options_.writer->Fail(*end);
    options_.calls.clear();
  }
  if (events.empty()) return std::nullopt;
  return events;
}

}  // namespace espalier::coordinator
