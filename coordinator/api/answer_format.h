#ifndef ESPALIER_COORDINATOR_API_ANSWER_FORMAT_H_
#define ESPALIER_COORDINATOR_API_ANSWER_FORMAT_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/session/request.h"

namespace espalier::coordinator {

// The messages of one streamed answer in the protocol of a client service.
// Collects what the outputs emit until it is taken, so that a slow reader costs
// no more memory than its own answer. Not thread-safe.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  virtual void Add(const OutputPiece& piece) = 0;
  // An output ends; no piece of it follows.
  virtual void End(const absl::Status& status,
                   const GenerationReport& report) = 0;
  // The next message, serialized; nullopt: nothing is to be sent now.
  virtual std::optional<std::string> Take() = 0;
  // Size of what Take has still to return.
  virtual size_t NumBytes() const = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_ANSWER_FORMAT_H_
