#include "common/rpc/server_runner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "common/obs/metrics.h"
#include "common/rpc/handshake.h"
#include "common/rpc/listen_address.h"
#include "common/rpc/peer_channel.h"
#include "drafter/drafter_service.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/common/rpc/fake_engines.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;
namespace health = ::grpc::health::v1;

constexpr char kService[] = "espalier.v1.Drafter";

class ServerRunnerTest : public testing::Test {
 protected:
  static std::string SocketPath(const std::string& name) {
    return "/tmp/espalier_" + std::to_string(getpid()) + "_" + name;
  }

  static v1::ServerConfig Listening(const std::vector<std::string>& addresses) {
    v1::ServerConfig config;
    for (const std::string& address : addresses) config.add_listen(address);
    return config;
  }

  absl::StatusOr<std::unique_ptr<ServerRunner>> Start(
      const v1::ServerConfig& config) {
    return ServerRunner::Start(
        {.config = config,
         .services = {{kService, &service_}},
         .registry = registry_,
         .drain = [this](absl::Time deadline) { service_.Drain(deadline); }});
  }

  std::string ErrorOf(const v1::ServerConfig& config) {
    auto runner = Start(config);
    EXPECT_FALSE(runner.ok());
    return std::string(runner.status().message());
  }

  static std::unique_ptr<health::Health::Stub> HealthStub(
      const std::string& address) {
    return health::Health::NewStub(NewPeerChannel(address));
  }

  static std::string Health(const std::string& address,
                            const std::string& service) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(Generous()));
    health::HealthCheckRequest request;
    request.set_service(service);
    health::HealthCheckResponse response;
    grpc::Status status =
        HealthStub(address)->Check(&context, request, &response);
    return status.ok() ? health::HealthCheckResponse::ServingStatus_Name(
                             response.status())
                       : status.error_message();
  }

  // The body and headers of GET /metrics.
  static std::string Scrape(const std::string& address) {
    auto parsed = ListenAddress::Parse(address);
    EXPECT_TRUE(parsed.ok());
    sockaddr_in name = {.sin_family = AF_INET};
    name.sin_port = htons(static_cast<uint16_t>(parsed->port));
    inet_pton(AF_INET, parsed->host.c_str(), &name.sin_addr);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
    const std::string request =
        "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(send(fd, request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    std::string response;
    char buffer[4096];
    for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) {
      response.append(buffer, static_cast<size_t>(n));
    }
    close(fd);
    return response;
  }

  FakeDraftEngine engine_;
  drafter::DrafterService service_{engine_, TestDrafterInfo()};
  std::shared_ptr<prometheus::Registry> registry_ =
      std::make_shared<prometheus::Registry>();
};

TEST_F(ServerRunnerTest, ServesOnSeveralAddresses) {
  const std::string unix_address = "unix:" + SocketPath("several");
  auto runner = Start(Listening({unix_address, "127.0.0.1:0", "localhost:0"}));
  ASSERT_TRUE(runner.ok()) << runner.status();
  ASSERT_EQ((*runner)->addresses().size(), 3);
  EXPECT_EQ((*runner)->addresses()[0], unix_address);
  for (const std::string& address : (*runner)->addresses()) {
    EXPECT_FALSE(absl::EndsWith(address, ":0"));
    EXPECT_EQ(Health(address, kService), "NOT_SERVING");
  }
}

TEST_F(ServerRunnerTest, HealthFollowsWhatItIsTold) {
  auto runner = Start(Listening({"127.0.0.1:0"}));
  ASSERT_TRUE(runner.ok()) << runner.status();
  const std::string address = (*runner)->addresses()[0];
  EXPECT_EQ(Health(address, ""), "NOT_SERVING");
  (*runner)->SetServing(true);
  EXPECT_EQ(Health(address, ""), "SERVING");
  EXPECT_EQ(Health(address, kService), "SERVING");
  EXPECT_EQ(Health(address, "no.such.Service").find("SERVING"),
            std::string::npos);
}

TEST_F(ServerRunnerTest, WatchSeesTheDrainAndDoesNotHoldItUp) {
  v1::ServerConfig config = Listening({"127.0.0.1:0"});
  config.set_drain_seconds(3600);
  auto runner = Start(config);
  ASSERT_TRUE(runner.ok()) << runner.status();
  (*runner)->SetServing(true);
  auto stub = HealthStub((*runner)->addresses()[0]);
  grpc::ClientContext context;
  health::HealthCheckRequest request;
  auto watch = stub->Watch(&context, request);
  health::HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), health::HealthCheckResponse::SERVING);
  std::thread drain([&] { (*runner)->DrainAndStop(); });
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), health::HealthCheckResponse::NOT_SERVING);
  drain.join();
  while (watch->Read(&response)) {
  }
  EXPECT_FALSE(watch->Finish().ok());
}

TEST_F(ServerRunnerTest, DrainIsCutAtItsDeadline) {
  v1::ServerConfig config = Listening({"127.0.0.1:0"});
  config.set_drain_seconds(0);
  auto runner = Start(config);
  ASSERT_TRUE(runner.ok()) << runner.status();
  auto stub = v1::Drafter::NewStub(NewPeerChannel((*runner)->addresses()[0]));
  grpc::ClientContext context;
  auto stream = stub->Draft(&context);
  v1::DraftRequest request;
  *request.mutable_hello() = MakeCoordinatorHello(TestModel(), 9);
  stream->Write(request);
  v1::DraftResponse response;
  ASSERT_TRUE(stream->Read(&response));
  engine_.Hold();
  request.set_request_id(2);
  *request.mutable_propose() =
      ToProto(ProposeRequest{.update = TestUpdate(1)}, absl::Seconds(60));
  stream->Write(request);
  ASSERT_TRUE(engine_.AwaitHeld(1));
  (*runner)->DrainAndStop();  // the engine never answers
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_TRUE(engine_.AwaitEnded(1));
  engine_.Release();
}

TEST_F(ServerRunnerTest, AddressInUseIsAnErrorThatNamesIt) {
  const std::string unix_address = "unix:" + SocketPath("in_use");
  auto first = Start(Listening({"127.0.0.1:0", unix_address}));
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string tcp_address = (*first)->addresses()[0];
  for (const std::string& address : {tcp_address, unix_address}) {
    EXPECT_EQ(ErrorOf(Listening({address})),
              "cannot listen on " + address + ": address already in use");
  }
  v1::ServerConfig config = Listening({"127.0.0.1:0"});
  config.set_metrics_listen(tcp_address);
  EXPECT_THAT(ErrorOf(config),
              testing::AllOf(HasSubstr("server.metrics_listen"),
                             HasSubstr(tcp_address), HasSubstr("in use")));
  // The live server was not disturbed.
  EXPECT_EQ(Health(unix_address, ""), "NOT_SERVING");
}

TEST_F(ServerRunnerTest, BadConfigurationIsAnErrorThatNamesTheField) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("server.listen is empty"));
  EXPECT_THAT(
      ErrorOf(Listening({"nonsense"})),
      testing::AllOf(HasSubstr("server.listen"), HasSubstr("\"nonsense\"")));
  EXPECT_THAT(ErrorOf(Listening({"unix:/tmp/x", "unix:/tmp/x"})),
              HasSubstr("twice"));
  v1::ServerConfig config = Listening({"127.0.0.1:0"});
  config.set_metrics_listen("unix:/tmp/x");
  EXPECT_THAT(ErrorOf(config), HasSubstr("server.metrics_listen"));
  config = Listening({"127.0.0.1:0"});
  config.set_address_file("/nonexistent/file");
  EXPECT_THAT(ErrorOf(config), HasSubstr("server.address_file"));
}

TEST_F(ServerRunnerTest, AddressFileListsWhatWasBound) {
  v1::ServerConfig config = Listening({"127.0.0.1:0"});
  config.set_metrics_listen("127.0.0.1:0");
  config.set_address_file(SocketPath("addresses"));
  auto runner = Start(config);
  ASSERT_TRUE(runner.ok()) << runner.status();
  std::ifstream file(config.address_file());
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), "grpc " + (*runner)->addresses()[0] + "\nmetrics " +
                            (*runner)->metrics_address() + "\n");
  std::filesystem::remove(config.address_file());
}

TEST_F(ServerRunnerTest, MetricsCanBeScraped) {
  AddCounter(*registry_, {.name = "espalier_test_total", .help = "h"})
      .Increment();
  v1::ServerConfig config = Listening({"127.0.0.1:0"});
  config.set_metrics_listen("127.0.0.1:0");
  auto runner = Start(config);
  ASSERT_TRUE(runner.ok()) << runner.status();
  Health((*runner)->addresses()[0], "");
  auto stub = v1::Drafter::NewStub(NewPeerChannel((*runner)->addresses()[0]));
  grpc::ClientContext context;
  auto stream = stub->Draft(&context);
  stream->Write({});  // no hello
  EXPECT_FALSE(stream->Finish().ok());
  const std::string page = Scrape((*runner)->metrics_address());
  for (const char* text :
       {"200 OK", "espalier_test_total 1", "process_cpu_seconds_total ",
        "process_resident_memory_bytes ", "process_open_fds ",
        "process_start_time_seconds ", "espalier_build_info{",
        "grpc_service=\"espalier.v1.Drafter\"", "grpc_method=\"Draft\"",
        "grpc_code=\"FAILED_PRECONDITION\""}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

}  // namespace
}  // namespace espalier
