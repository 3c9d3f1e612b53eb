#ifndef ESPALIER_COORDINATOR_HTTP_REASONING_H_
#define ESPALIER_COORDINATOR_HTTP_REASONING_H_

#include <memory>

#include "coordinator/http/output_parser.h"

namespace espalier::coordinator {

// Returns a parser of what a model thinks before its answer: <think>...</think>
// at the beginning of an output. `is_open`: the prompt has ended with <think>.
// `rest` reads what follows.
std::unique_ptr<OutputParser> NewReasoningParser(
    bool is_open, std::unique_ptr<OutputParser> rest);

// All of a text is content.
std::unique_ptr<OutputParser> NewPlainParser();

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_REASONING_H_
