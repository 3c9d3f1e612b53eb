#ifndef ESPALIER_COORDINATOR_HTTP_GENERATION_FIELDS_H_
#define ESPALIER_COORDINATOR_HTTP_GENERATION_FIELDS_H_

#include "coordinator/http/field_table.h"

namespace espalier::coordinator {

// Fields that every API for texts of OpenAI's kind has: sampling, stops,
// penalties, vLLM's further fields, and `espalier`, the options of speculation.
FieldTable GenerationFields();
// Fields that hold the output to a form: response_format, structured_outputs,
// guided_*.
FieldTable ConstraintFields();

// Reads max_tokens, or another name for it.
absl::Status ReadMaxTokens(absl::string_view name, const Json& value,
                           ApiRequest& out);
// The default of a temperature that the request does not have, and temperatures
// that are too low to divide by, as vLLM treats them.
void SetTemperature(ApiRequest& out);

// Holds the output to a JSON schema, any object, a text, ...: `format` is
// OpenAI's response_format.
absl::Status ReadResponseFormat(absl::string_view name, const Json& format,
                                ApiRequest& out);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_GENERATION_FIELDS_H_
