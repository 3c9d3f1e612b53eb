#include "common/rpc/http_request.h"

#include "gtest/gtest.h"

namespace espalier {
namespace {

TEST(HttpRequestTest, ReadsWhatThePagesNeed) {
  const auto request = ParseHttpRequest(
      "GET /status.json?key=a%20b&x HTTP/1.1\r\nAccept: */*\r\n"
      "hOST:  localhost:9464 \r\n\r\nbody");
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_TRUE(request->has_value());
  EXPECT_EQ((*request)->method, "GET");
  EXPECT_EQ((*request)->path, "/status.json");
  EXPECT_EQ((*request)->query, "key=a%20b&x");
  EXPECT_EQ((*request)->host, "localhost:9464");
}

TEST(HttpRequestTest, WaitsForTheEndOfTheHeaders) {
  const std::string whole = "GET / HTTP/1.0\r\nHost: x\r\n\r\n";
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto request = ParseHttpRequest(whole.substr(0, size));
    ASSERT_TRUE(request.ok()) << size;
    EXPECT_FALSE(request->has_value()) << size;
  }
}

TEST(HttpRequestTest, RefusesWhatIsNoneOrTooLarge) {
  for (const char* bytes :
       {"\r\n\r\n", "GET\r\n\r\n", "GET / FTP/1\r\n\r\n",
        "GET x HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseHttpRequest(bytes).status()))
        << bytes;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      ParseHttpRequest("GET / HTTP/1.1\r\n" + std::string(kMaxHttpRequest, 'x'))
          .status()));
}

}  // namespace
}  // namespace espalier
