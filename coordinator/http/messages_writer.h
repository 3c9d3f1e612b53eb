#ifndef ESPALIER_COORDINATOR_HTTP_MESSAGES_WRITER_H_
#define ESPALIER_COORDINATOR_HTTP_MESSAGES_WRITER_H_

#include <memory>

#include "coordinator/http/answer_writer.h"
#include "coordinator/http/field_table.h"

namespace espalier::coordinator {

// The answer of Anthropic's /v1/messages to `request`: events of blocks if it
// is streamed, else one message.
std::unique_ptr<AnswerWriter> NewMessagesWriter(const ApiRequest& request,
                                                AnswerName name);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_MESSAGES_WRITER_H_
