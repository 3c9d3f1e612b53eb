#ifndef ESPALIER_COORDINATOR_HTTP_ENCODED_ANSWER_H_
#define ESPALIER_COORDINATOR_HTTP_ENCODED_ANSWER_H_

#include <functional>
#include <memory>
#include <vector>

#include "common/http/answer.h"
#include "common/speculation/types.h"
#include "coordinator/api/generator.h"
#include "coordinator/http/api_error.h"

namespace espalier::coordinator {

// An answer that needs the tokens of a prompt, which are made on another
// thread. `write` makes its body of them.
using WriteTokens = std::function<Json(const std::vector<TokenId>& tokens)>;
std::unique_ptr<http::Answer> NewEncodedAnswer(Generator& generator,
                                               v1::GenerateRequest request,
                                               WriteTokens write,
                                               ErrorShape error,
                                               http::Wake wake);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_ENCODED_ANSWER_H_
