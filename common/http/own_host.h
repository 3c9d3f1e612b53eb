#ifndef ESPALIER_COMMON_HTTP_OWN_HOST_H_
#define ESPALIER_COMMON_HTTP_OWN_HOST_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace espalier::http {

// Returns true if the Host that a browser asks for cannot be a web site's name
// that was made to resolve to this address (DNS rebinding): it is an IP
// address, "localhost", or one of `allowed`. A port does not count.
bool IsOwnHost(absl::string_view host, absl::Span<const std::string> allowed);

}  // namespace espalier::http

#endif  // ESPALIER_COMMON_HTTP_OWN_HOST_H_
