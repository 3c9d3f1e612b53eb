#ifndef ESPALIER_COORDINATOR_VLLM_NULL_CONTENT_H_
#define ESPALIER_COORDINATOR_VLLM_NULL_CONTENT_H_

#include <string>
#include <vector>

#include "common/model/files/tokenizer_artifacts.h"

namespace espalier::coordinator {

// The template `jinja`. OpenAI's clients send an assistant's message that only
// calls tools with null content; if the template cannot render that, it comes
// with a check before it, whose error names the message and its content.
std::string WithNullContentCheck(const std::string& jinja);

// Does so with the template in the files of a tokenizer. A gateway renders it
// with them, and its own error would name neither.
void CheckNullContent(std::vector<TextFile>& files);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_VLLM_NULL_CONTENT_H_
