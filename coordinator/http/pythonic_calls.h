#ifndef ESPALIER_COORDINATOR_HTTP_PYTHONIC_CALLS_H_
#define ESPALIER_COORDINATOR_HTTP_PYTHONIC_CALLS_H_

#include <memory>
#include <string>
#include <vector>

#include "coordinator/http/output_parser.h"

namespace espalier::coordinator {

// Calls as a list of Python's: [f(a=1, b="x"), g()], the whole output. Values
// are literals, which become JSON. The calls come out when the list has ended.
std::unique_ptr<OutputParser> NewPythonicCalls(std::vector<std::string> names);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_PYTHONIC_CALLS_H_
