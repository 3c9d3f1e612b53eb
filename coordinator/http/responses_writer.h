#ifndef ESPALIER_COORDINATOR_HTTP_RESPONSES_WRITER_H_
#define ESPALIER_COORDINATOR_HTTP_RESPONSES_WRITER_H_

#include <memory>

#include "coordinator/http/answer_writer.h"
#include "coordinator/http/field_table.h"

namespace espalier::coordinator {

// The answer of OpenAI's /v1/responses to `request`: events of items if it is
// streamed, else one response.
std::unique_ptr<AnswerWriter> NewResponsesWriter(const ApiRequest& request,
                                                 AnswerName name);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_RESPONSES_WRITER_H_
