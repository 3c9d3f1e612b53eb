#ifndef ESPALIER_COMMON_HTTP_ANSWER_H_
#define ESPALIER_COMMON_HTTP_ANSWER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/http/message.h"

namespace espalier::http {

// The answer to one request, which the server pulls as fast as the client
// reads, so that a slow reader costs no more memory than the answer keeps. The
// server calls it on one thread at a time, and destroys it when all is sent or
// as soon as the client has left. Calls must not block.
class Answer {
 public:
  // The head of the response; nullopt: not known yet. Asked again after a Wake.
  struct Head {
    Response response;
    // True: `body` is the beginning of a body whose rest Next returns.
    bool is_stream = false;
  };
  virtual ~Answer() = default;
  virtual std::optional<Head> Begin() = 0;
  // Returns what is to be sent next; nullopt: nothing now, ask again after a
  // Wake; an empty text: the body is complete.
  virtual std::optional<std::string> Next() = 0;
};

// Tells the server that an answer has something new. May be called on any
// thread, also when the answer, the connection or the server are gone.
using Wake = std::function<void()>;

// Makes the answer to a request. Called on threads of the server, at most one
// at a time for each connection. Never returns null.
using Handler =
    std::function<std::unique_ptr<Answer>(Request request, Wake wake)>;

// An answer that is known at once.
class WholeAnswer final : public Answer {
 public:
  explicit WholeAnswer(Response response) : response_(std::move(response)) {}
  std::optional<Head> Begin() override { return Head{std::move(response_)}; }
  std::optional<std::string> Next() override { return ""; }

 private:
  Response response_;
};

}  // namespace espalier::http

#endif  // ESPALIER_COMMON_HTTP_ANSWER_H_
