#ifndef ESPALIER_COORDINATOR_HTTP_COMPLETION_WRITER_H_
#define ESPALIER_COORDINATOR_HTTP_COMPLETION_WRITER_H_

#include <memory>

#include "coordinator/http/answer_writer.h"
#include "coordinator/http/field_table.h"

namespace espalier::coordinator {

// The answer of /v1/completions to `request`. Output i of prompt p is choice
// p * n + i.
std::unique_ptr<AnswerWriter> NewCompletionWriter(const ApiRequest& request,
                                                  AnswerName name);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_COMPLETION_WRITER_H_
