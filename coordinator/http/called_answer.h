#ifndef ESPALIER_COORDINATOR_HTTP_CALLED_ANSWER_H_
#define ESPALIER_COORDINATOR_HTTP_CALLED_ANSWER_H_

#include <memory>
#include <vector>

#include "common/http/answer.h"
#include "coordinator/api/generator.h"
#include "coordinator/http/answer_writer.h"
#include "coordinator/http/api_error.h"

namespace espalier::coordinator {

// An HTTP answer that is made of calls of Generate. They are cancelled when the
// client leaves, and when one of them fails. A stream begins with the first
// token, so that an error before it has a status of its own.
class CalledAnswer final : public http::Answer {
 public:
  struct Options {
    std::vector<std::unique_ptr<GenerateCall>> calls;
    std::unique_ptr<AnswerWriter> writer;
    bool stream = false;
    ErrorShape error = OpenAiError;
    FieldNames names = {};
    http::Headers headers = {};
  };
  explicit CalledAnswer(Options options) : options_(std::move(options)) {}

  std::optional<Head> Begin() override;
  std::optional<std::string> Next() override;

 private:
  // Takes what the calls have. Returns the events of a stream.
  std::string Pull();
  // How all calls have ended, or the first error; nullopt: some go on.
  std::optional<absl::Status> Ended() const;

  Options options_;
  bool finished_ = false;  // the last event of the stream is out
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_CALLED_ANSWER_H_
