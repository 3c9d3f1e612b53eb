#ifndef ESPALIER_COORDINATOR_HTTP_CHAT_WRITER_H_
#define ESPALIER_COORDINATOR_HTTP_CHAT_WRITER_H_

#include <memory>

#include "coordinator/http/answer_writer.h"
#include "coordinator/http/field_table.h"

namespace espalier::coordinator {

// The answer of /v1/chat/completions to `request`: chunks if it is streamed,
// else one object.
std::unique_ptr<AnswerWriter> NewChatWriter(const ApiRequest& request,
                                            AnswerName name);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_CHAT_WRITER_H_
