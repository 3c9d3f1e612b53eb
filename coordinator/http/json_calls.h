#ifndef ESPALIER_COORDINATOR_HTTP_JSON_CALLS_H_
#define ESPALIER_COORDINATOR_HTTP_JSON_CALLS_H_

#include <memory>
#include <string>
#include <vector>

#include "coordinator/http/output_parser.h"

namespace espalier::coordinator {

// How a family of models writes calls as JSON among its text.
struct JsonCallForm {
  // Comes before a call; empty: the output is calls from its beginning on.
  std::string begin = {};
  std::string end = {};  // what is after it; empty: nothing
  // Bytes that may be around and between calls, such as "[,]" of a list.
  std::string between = {};
};

// `names`: of the tools. Without a `begin` only they make a call, as other JSON
// may be an answer.
std::unique_ptr<OutputParser> NewJsonCalls(JsonCallForm form,
                                           std::vector<std::string> names);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_JSON_CALLS_H_
