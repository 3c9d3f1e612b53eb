#ifndef ESPALIER_COMMON_CHAT_JINJA_ERROR_H_
#define ESPALIER_COMMON_CHAT_JINJA_ERROR_H_

#include <string>
#include <utility>

namespace espalier::jinja {

// Names what Python would raise, or a bound that a template exceeds. Thrown
// within this folder only: Program turns it into a status. A status of every
// subexpression would be half of an interpreter's code.
struct Error {
  explicit Error(std::string text) : message(std::move(text)) {}

  std::string message;
  int line = 0;            // of the template, from 1; 0: not known yet
  bool own_words = false;  // of raise_exception
};

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_ERROR_H_
