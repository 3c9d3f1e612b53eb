#ifndef ESPALIER_COORDINATOR_HTTP_ANSWER_WRITER_H_
#define ESPALIER_COORDINATOR_HTTP_ANSWER_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/json/ordered_json.h"
#include "coordinator/http/json_read.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// Writes an answer in the format of one API, streamed or whole. For one thread.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // A message of the call with this number. Returns the events of a stream.
  virtual std::string Add(size_t call, const v1::GenerateResponse& message) = 0;
  // All calls have ended well. Returns the last events, or the whole body.
  virtual std::string Finish() = 0;
  // The last event of a stream that ends with an error.
  virtual std::string Fail(const absl::Status& status) = 0;
};

// Holds what an answer says about itself.
struct AnswerName {
  std::string id;  // e.g. "chatcmpl-..."
  std::string model;
  int64_t created = 0;  // Unix time in seconds
};

// A server-sent event without a name, and one with.
inline std::string Event(const Json& data) {
  return absl::StrCat("data: ", ToText(data), "\n\n");
}
inline std::string NamedEvent(const std::string& name, const Json& data) {
  return absl::StrCat("event: ", name, "\n", Event(data));
}
inline constexpr char kDoneEvent[] = "data: [DONE]\n\n";

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_ANSWER_WRITER_H_
