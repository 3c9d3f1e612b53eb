#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/rpc/connection_watch.h"
#include "common/rpc/tls_tap.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace connection_bytes_fuzz {

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

std::string Frames() {
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  bytes += std::string("\0\0\0\4\0\0\0\0\0", 9);                 // SETTINGS
  bytes += std::string("\0\0\1\1\4\0\0\0\1h", 10);               // HEADERS
  bytes += std::string("\0\0\x07\0\0\0\0\0\1\0\0\0\0\3ab", 16);  // DATA
  bytes += std::string("\0\0\1\0\1\0\0\0\1c", 10);               // its end
  bytes += std::string("\0\0\1\1\0\0\0\0\3h", 10);
  bytes += std::string("\0\0\1\x09\4\0\0\0\3h", 10);  // CONTINUATION
  return bytes + std::string("\0\0\4\3\0\0\0\0\3\0\0\0\x08", 13);  // RST_STREAM
}

std::string Hello() {
  std::string bytes("\x16\3\1\2\0\1\0\1\xfc\3\3", 11);
  bytes.append(32, 'r');
  return bytes;
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  seeds.push_back(Frames());
  seeds.push_back(Hello());
  return seeds;
}

// How the bytes are cut into pieces makes no difference.
void FindRandom(std::string_view bytes) {
  ClientRandom whole, pieces;
  const auto found = whole.Feed({bytes.data(), bytes.size()});
  for (const char& byte : bytes) (void)pieces.Feed({&byte, 1});
  ESPALIER_CHECK(pieces.Feed("") == found);
  if (found != ClientRandom::State::kFound) return;
  ESPALIER_CHECK(pieces.value() == whole.value());
}

bool Try(std::string_view bytes) {
  FindRandom(bytes);
  ConnectionWatch whole({.max_streams = 2}), pieces({.max_streams = 2});
  const auto blame = whole.Received({bytes.data(), bytes.size()}, kNow);
  for (const char& byte : bytes) (void)pieces.Received({&byte, 1}, kNow);
  ESPALIER_CHECK(pieces.Received("", kNow) == blame);
  ESPALIER_CHECK(pieces.unfinished_bytes() == whole.unfinished_bytes());
  ESPALIER_CHECK(whole.unfinished_bytes() >= 0);
  ESPALIER_CHECK(whole.unfinished_bytes() <=
                 static_cast<int64_t>(bytes.size()));
  (void)whole.Sent({bytes.data(), bytes.size()}, kNow);
  (void)whole.CheckTime(kNow + absl::Hours(1));
  return blame.empty();
}

}  // namespace connection_bytes_fuzz

FuzzTarget ConnectionBytesTarget() {
  return {"connection_bytes", connection_bytes_fuzz::Seeds,
          connection_bytes_fuzz::Try};
}

}  // namespace espalier::testing
