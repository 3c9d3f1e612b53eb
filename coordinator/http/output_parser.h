// Parsers find what a model's text says: what is for the reader, what the model
// thought, and which tools it calls.
#ifndef ESPALIER_COORDINATOR_HTTP_OUTPUT_PARSER_H_
#define ESPALIER_COORDINATOR_HTTP_OUTPUT_PARSER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace espalier::coordinator {

// A piece of the call number `index`. The pieces of a call add up to the whole.
struct ToolCallPiece {
  int64_t index = 0;
  std::string name = {};       // in the first piece of a call
  std::string arguments = {};  // JSON
};

// Holds what is new in a text.
struct ParsedText {
  std::string content = {};
  std::string reasoning = {};
  std::vector<ToolCallPiece> calls = {};

  bool empty() const {
    return content.empty() && reasoning.empty() && calls.empty();
  }
  // Joins it to the last piece of the same call.
  void AddCall(ToolCallPiece piece) {
    if (!calls.empty() && calls.back().index == piece.index) {
      calls.back().arguments += piece.arguments;
    } else {
      calls.push_back(std::move(piece));
    }
  }
};

// Reads the text of one output, piece by piece. What it says in all does not
// depend on the pieces. A call that is malformed is content, as written; one
// that breaks off keeps what was said of it.
class OutputParser {
 public:
  virtual ~OutputParser() = default;
  virtual void Push(absl::string_view text, ParsedText& out) = 0;
  virtual void Finish(ParsedText& out) = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_OUTPUT_PARSER_H_
