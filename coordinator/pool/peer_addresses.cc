#include "coordinator/pool/peer_addresses.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace espalier::coordinator {
namespace {

constexpr char kName[] = "dns:";

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};

// "10.0.0.1:50051" or "[fd00::1]:50051"; empty: neither IPv4 nor IPv6.
std::string TextOf(const sockaddr& address, const std::string& port) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr,
              text, sizeof(text));
    return absl::StrCat(text, ":", port);
  }
  if (address.sa_family == AF_INET6) {
    inet_ntop(AF_INET6,
              &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text,
              sizeof(text));
    return absl::StrCat("[", text, "]:", port);
  }
  return "";
}

}  // namespace

absl::StatusOr<PeerAddresses> PeerAddresses::Parse(const std::string& text) {
  PeerAddresses out;
  if (absl::StartsWith(text, kName)) {
    const std::vector<std::string> parts =
        absl::StrSplit(absl::StripPrefix(text, kName), ':');
    int port = 0;
    if (parts.size() != 2 || parts[0].empty() ||
        !absl::SimpleAtoi(parts[1], &port) || port < 1 || port > 65535) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\" is not dns:NAME:PORT"));
    }
    out.name_ = parts[0];
    out.port_ = parts[1];
    return out;
  }
  out.fixed_ = absl::StrSplit(text, ',');
  for (auto address = out.fixed_.begin(); address != out.fixed_.end();
       ++address) {
    if (address->empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\" has an empty address"));
    }
    if (std::find(out.fixed_.begin(), address, *address) != address) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", *address, "\" is there twice"));
    }
  }
  return out;
}

absl::StatusOr<std::vector<std::string>> PeerAddresses::Resolve() const {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name_.c_str(), port_.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat(name_, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> all(found);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = all.get(); entry; entry = entry->ai_next) {
    std::string text = TextOf(*entry->ai_addr, port_);
    if (!text.empty()) addresses.push_back(std::move(text));
  }
  // A resolver turns the order with every answer.
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()),
                  addresses.end());
  return addresses;
}

}  // namespace espalier::coordinator
