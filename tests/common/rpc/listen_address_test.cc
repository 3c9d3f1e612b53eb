#include "common/rpc/listen_address.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

std::string Refusal(absl::string_view text) {
  auto address = ListenAddress::Parse(text);
  absl::Status status =
      address.ok() ? PrepareToListen(*address) : address.status();
  EXPECT_FALSE(status.ok()) << text;
  return std::string(status.message());
}

std::string FreshPath(const std::string& name) {
  const std::string path = testing::TempDir() + "/la_" + name;
  std::filesystem::remove(path);
  return path;
}

// Returns a bound Unix socket. Closing it leaves the file, as kill -9 does.
int Bind(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name = {.sun_family = AF_UNIX};
  std::memcpy(name.sun_path, path.c_str(), path.size());
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  return fd;
}

TEST(ListenAddress, PrintsWhatItParsed) {
  for (const char* text : {"unix:/run/x", "unix:relative", "localhost:0",
                           "0.0.0.0:65535", "[::1]:80"}) {
    auto address = ListenAddress::Parse(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ToString(), text);
  }
}

TEST(ListenAddress, RefusesWhatIsNoAddress) {
  EXPECT_THAT(Refusal(""), HasSubstr("port is missing"));
  EXPECT_THAT(Refusal("unix:"), HasSubstr("path is empty"));
  EXPECT_THAT(Refusal("localhost"), HasSubstr("port is missing"));
  EXPECT_THAT(Refusal(":80"), HasSubstr("host is missing"));
  EXPECT_THAT(Refusal("h:65536"), HasSubstr("0 .. 65535"));
  EXPECT_THAT(Refusal("h:-1"), HasSubstr("0 .. 65535"));
  EXPECT_THAT(Refusal("h:http"), HasSubstr("0 .. 65535"));
  EXPECT_THAT(Refusal("::1:80"), HasSubstr("needs brackets"));
  EXPECT_THAT(Refusal("[::1:80"), HasSubstr("\"]\" is missing"));
}

TEST(PrepareToListen, NamesTheLimitOfAPath) {
  EXPECT_THAT(Refusal("unix:/" + std::string(107, 'x')),
              HasSubstr("108 bytes, the system's limit is 107"));
}

TEST(PrepareToListen, NamesTheMissingFolder) {
  EXPECT_THAT(Refusal("unix:/nonexistent/folder/s"),
              HasSubstr("no folder /nonexistent/folder"));
}

TEST(PrepareToListen, KeepsAFileThatIsNoSocket) {
  const std::string path = FreshPath("file");
  std::ofstream(path) << "precious";
  EXPECT_THAT(Refusal("unix:" + path), HasSubstr("is no socket"));
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(PrepareToListen, RemovesAStaleSocketButNotALiveOne) {
  const std::string path = FreshPath("socket");
  const int fd = Bind(path);
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_THAT(Refusal("unix:" + path), HasSubstr("already in use"));
  EXPECT_TRUE(std::filesystem::exists(path));
  close(fd);
  EXPECT_TRUE(PrepareToListen({.unix_path = path}).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(PrepareToListen, RefusesAHostThatIsNotOurs) {
  EXPECT_THAT(Refusal("192.0.2.1:0"), HasSubstr("192.0.2.1:0"));
  EXPECT_THAT(Refusal("no-such-host.invalid:0"), HasSubstr("no-such-host"));
}

}  // namespace
}  // namespace espalier
