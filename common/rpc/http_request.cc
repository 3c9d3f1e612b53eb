#include "common/rpc/http_request.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace espalier {
namespace {

constexpr absl::string_view kLineEnd = "\r\n";
constexpr absl::string_view kHeadersEnd = "\r\n\r\n";

}  // namespace

absl::StatusOr<std::optional<HttpRequest>> ParseHttpRequest(
    absl::string_view bytes) {
  const size_t size = bytes.substr(0, kMaxHttpRequest).find(kHeadersEnd);
  if (size == absl::string_view::npos) {
    if (bytes.size() < kMaxHttpRequest) return std::nullopt;
    return absl::InvalidArgumentError("the request is too large");
  }
  const std::vector<absl::string_view> lines =
      absl::StrSplit(bytes.substr(0, size), kLineEnd);
  const std::vector<absl::string_view> words = absl::StrSplit(lines[0], ' ');
  if (words.size() != 3 || !absl::StartsWith(words[1], "/") ||
      !absl::StartsWith(words[2], "HTTP/1.")) {
    return absl::InvalidArgumentError("this is no HTTP request");
  }
  HttpRequest request = {.method = std::string(words[0])};
  const std::pair<std::string, std::string> target =
      absl::StrSplit(words[1], absl::MaxSplits('?', 1));
  request.path = target.first;
  request.query = target.second;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> header =
        absl::StrSplit(lines[i], absl::MaxSplits(':', 1));
    if (absl::EqualsIgnoreCase(header.first, "host")) {
      request.host = std::string(absl::StripAsciiWhitespace(header.second));
    }
  }
  return request;
}

}  // namespace espalier
