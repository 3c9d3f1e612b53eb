#ifndef ESPALIER_COORDINATOR_HTTP_JSON_CALL_H_
#define ESPALIER_COORDINATOR_HTTP_JSON_CALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/http/output_parser.h"

namespace espalier::coordinator {

// Reads a call that a model writes as {"name": "f", "arguments": {...}}
// ("parameters" is as good), byte by byte. Arguments go out as they are
// written, once the name is known.
class JsonCall {
 public:
  // `known`: names that a call may have; null: any.
  JsonCall(int64_t index, const std::vector<std::string>* known)
      : index_(index), known_(known) {}

  enum class Progress {
    kMore,
    kDone,  // with this byte
    kBad,   // it is no call; nothing has gone out
  };
  Progress Push(char byte, ParsedText& out);

  // All that was read.
  const std::string& text() const { return text_; }
  // Returns true if a piece of it has gone out.
  bool announced() const { return announced_; }

 private:
  enum class State {
    kStart,
    kKey,
    kInKey,
    kColon,
    kValue,
    kNested,
    kScalar,
    kAfter
  };

  Progress Step(char byte, ParsedText& out);
  Progress StepBetween(char byte, ParsedText& out);
  Progress BeginValue(char byte, ParsedText& out);
  // Steps within a text, a list or an object; within a number or a literal.
  Progress StepNested(char byte, ParsedText& out);
  Progress StepScalar(char byte, ParsedText& out);
  Progress EndValue(ParsedText& out);
  Progress End(ParsedText& out);
  bool IsArguments() const {
    return key_ == "arguments" || key_ == "parameters";
  }
  void AddArguments(absl::string_view text, ParsedText& out);
  Progress SetName(const std::string& name, ParsedText& out);

  const int64_t index_;
  const std::vector<std::string>* const known_;
  State state_ = State::kStart;
  std::string text_;
  std::string key_;
  std::string name_;
  std::string arguments_;  // before the name is known
  bool has_arguments_ = false;
  bool announced_ = false;
  // The value that is being read; of arguments only if they are a text.
  std::string value_;
  bool is_text_ = false;
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_JSON_CALL_H_
