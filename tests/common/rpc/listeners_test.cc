#include "common/rpc/listeners.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::ServerConfig Listening(const std::string& address) {
  v1::ServerConfig config;
  config.add_listen(address);
  return config;
}

TEST(OpenListenersTest, TheLoopbackAndUnixSocketsAreNotOpen) {
  for (const char* address : {"unix:/tmp/x", "localhost:1", "127.0.0.1:1",
                              "127.9.9.9:1", "[::1]:1"}) {
    v1::ServerConfig config = Listening(address);
    config.set_metrics_listen("127.0.0.1:2");
    const auto open = OpenListeners(config, /*asks=*/false);
    ASSERT_TRUE(open.ok()) << open.status();
    EXPECT_THAT(*open, IsEmpty());
  }
}

TEST(OpenListenersTest, BeyondTheLoopbackOneOfThreeIsNeeded) {
  for (const char* address : {"0.0.0.0:1", "[::]:1", "example.com:1",
                              "127.evil.example:1", "10.0.0.1:1"}) {
    const auto refused = OpenListeners(Listening(address), /*asks=*/false);
    EXPECT_THAT(
        std::string(refused.status().message()),
        testing::AllOf(HasSubstr(absl::StrCat(
                           "server.listen: everybody who reaches ", address)),
                       HasSubstr("server.insecure=true")));
    EXPECT_THAT(*OpenListeners(Listening(address), /*asks=*/true), IsEmpty());
    v1::ServerConfig config = Listening(address);
    config.set_insecure(true);
    EXPECT_THAT(*OpenListeners(config, false), ElementsAre(HasSubstr(address)));
    config = Listening(address);
    config.mutable_tls()->set_certificate_file("x");
    EXPECT_THAT(*OpenListeners(config, false), IsEmpty());
  }
}

TEST(OpenListenersTest, MetricsBeyondTheLoopbackNeedRoles) {
  v1::ServerConfig config = Listening("127.0.0.1:1");
  config.set_metrics_listen("0.0.0.0:2");
  EXPECT_THAT(std::string(OpenListeners(config, true).status().message()),
              HasSubstr("server.metrics_listen"));
  config.set_roles_file("x");
  EXPECT_THAT(*OpenListeners(config, true), IsEmpty());
}

TEST(SocketPermissionsTest, ModeAndGroupAreChecked) {
  EXPECT_EQ(SocketPermissions::Parse("", "")->mode, 0600);
  EXPECT_EQ(SocketPermissions::Parse("0660", "")->mode, 0660);
  EXPECT_EQ(SocketPermissions::Parse("", "root")->group, 0);
  EXPECT_EQ(SocketPermissions::Parse("", "1234")->group, 1234);
  for (const char* mode : {"8", "66x", "1777", "077", "-1", "00660"}) {
    EXPECT_THAT(
        std::string(SocketPermissions::Parse(mode, "").status().message()),
        HasSubstr("socket_mode: "))
        << mode;
  }
  EXPECT_THAT(
      std::string(
          SocketPermissions::Parse("", "no such group").status().message()),
      HasSubstr("socket_group: there is no group"));
}

TEST(SocketPermissionsTest, TheSocketHasThem) {
  const std::string path = absl::StrCat("/tmp/espalier_mode_", getpid());
  ListenAddress address = *ListenAddress::Parse("unix:" + path);
  address.permissions = {.mode = 0660, .group = getgid()};
  const auto sockets = OpenListeningSockets(address);
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  struct stat about = {};
  stat(path.c_str(), &about);
  EXPECT_EQ(about.st_mode & 0777, 0660);
  EXPECT_EQ(about.st_gid, getgid());
  for (const int socket : *sockets) close(socket);
  unlink(path.c_str());
}

}  // namespace
}  // namespace espalier
