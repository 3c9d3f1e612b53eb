#include "common/rpc/access_token.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

constexpr char kKey[] = "authorization";
constexpr char kScheme[] = "Bearer ";

}  // namespace

absl::StatusOr<AccessToken> AccessToken::ReadFile(const std::string& path) {
  if (path.empty()) return AccessToken();
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  std::stringstream text;
  text << file.rdbuf();
  const std::string content = text.str();
  std::string secret(absl::StripAsciiWhitespace(content));
  if (secret.size() < kMinBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a token of ", secret.size(),
                     " bytes, must be at least ", kMinBytes));
  }
  if (!std::all_of(secret.begin(), secret.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a token is printable ASCII without spaces"));
  }
  return AccessToken(std::move(secret));
}

void AccessToken::ShowOn(grpc::ClientContext& context) const {
  if (secret_.empty()) return;
  const auto [key, value] = AsMetadata();
  context.AddMetadata(key, value);
}

std::pair<std::string, std::string> AccessToken::AsMetadata() const {
  return {kKey, kScheme + secret_};
}

bool AccessToken::Matches(absl::string_view shown) const {
  unsigned difference = shown.size() != secret_.size();
  for (size_t i = 0; i < secret_.size(); ++i) {
    const char c = i < shown.size() ? shown[i] : '\0';
    difference |= static_cast<unsigned char>(c ^ secret_[i]);
  }
  return difference == 0;
}

}  // namespace espalier
