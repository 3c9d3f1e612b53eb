#include "coordinator/http/route.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/secret_number.h"
#include "common/json/ordered_json.h"
#include "common/speculation/trace_context.h"

namespace espalier::coordinator {

std::unique_ptr<http::Answer> Answered(http::Response response) {
  return std::make_unique<http::WholeAnswer>(std::move(response));
}

std::unique_ptr<http::Answer> Answered(const Json& body) {
  return Answered(http::Response{.body = ToText(body)});
}

std::unique_ptr<http::Answer> Failed(const absl::Status& status,
                                     ErrorShape shape) {
  return Answered(ErrorResponse(status, shape));
}

// As the specification has it, a malformed traceparent is ignored.
Caller CallerOf(const http::Request& request) {
  Caller caller = {
      .peer = request.peer,
      .tenant = request.caller,
      .stated_tenant = std::string(request.Header(kTenantMetadata))};
  const std::string trace(request.Header(kTraceparent));
  if (IsTraceparent(trace)) caller.traceparent = trace;
  return caller;
}

std::string NewId(absl::string_view prefix) {
  return absl::StrCat(prefix, absl::Hex(SecretNumber(), absl::kZeroPad16),
                      absl::Hex(SecretNumber(), absl::kZeroPad16));
}

}  // namespace espalier::coordinator
