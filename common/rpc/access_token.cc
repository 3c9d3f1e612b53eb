#include "common/rpc/access_token.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

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
  if (!secret_.empty()) context.AddMetadata(kKey, kScheme + secret_);
}

grpc::Status AccessToken::Check(const grpc::ServerContextBase& context) const {
  if (secret_.empty()) return grpc::Status::OK;
  const auto [begin, end] = context.client_metadata().equal_range(kKey);
  for (auto entry = begin; entry != end; ++entry) {
    absl::string_view shown(entry->second.data(), entry->second.size());
    if (absl::ConsumePrefix(&shown, kScheme) && Matches(shown)) {
      return grpc::Status::OK;
    }
  }
  return {grpc::StatusCode::UNAUTHENTICATED,
          begin == end ? "no token was shown" : "another token was shown"};
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
