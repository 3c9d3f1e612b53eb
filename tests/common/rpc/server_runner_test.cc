#include "common/rpc/server_runner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/notification.h"
#include "common/obs/metrics.h"
#include "common/rpc/convert.h"
#include "common/rpc/handshake.h"
#include "common/rpc/listen_address.h"
#include "common/rpc/peer_channel.h"
#include "common/rpc/peer_service.h"
#include "espalier/v1/drafter.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/support/log.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "tests/common/rpc/fake_engines.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
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
         .services = {{kService, service_->calls()}},
         .registry = registry_,
         .drain = [this](absl::Time deadline) { service_->Drain(deadline); }});
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

  // Returns a connection to "127.0.0.1:PORT" over which nothing was sent.
  static int Connect(const std::string& address) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ConnectTo(address, fd);
    return fd;
  }

  static void ConnectTo(const std::string& address, int fd) {
    auto parsed = ListenAddress::Parse(address);
    EXPECT_TRUE(parsed.ok());
    sockaddr_in name = {.sin_family = AF_INET};
    name.sin_port = htons(static_cast<uint16_t>(parsed->port));
    inet_pton(AF_INET, parsed->host.c_str(), &name.sin_addr);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  }

  // Returns the headers and body of a page.
  static std::string Scrape(const std::string& address,
                            const std::string& path = "/metrics",
                            const std::string& host = "x") {
    const int fd = Connect(address);
    const std::string request =
        absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: ", host,
                     "\r\nConnection: close\r\n\r\n");
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
  const std::unique_ptr<PeerService> service_ =
      NewDrafterService(engine_, TestDrafterInfo());
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

// Returns the status of a stream that begins with a hello of `bytes` bytes.
grpc::Status StatusOfHello(const std::string& address, size_t bytes,
                           grpc_compression_algorithm compression) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(-1);
  auto stub = v1::Drafter::NewStub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_compression_algorithm(compression);
  auto stream = stub->Draft(&context);
  v1::DraftRequest hello;
  hello.mutable_hello()->mutable_model()->set_name(std::string(bytes, 'x'));
  stream->Write(hello);
  v1::DraftResponse response;
  while (stream->Read(&response)) {
  }
  return stream->Finish();
}

TEST_F(ServerRunnerTest, LargeMessagesAreRefusedBeforeTheyAreRead) {
  auto runner = Start(Listening({"127.0.0.1:0"}));
  ASSERT_TRUE(runner.ok()) << runner.status();
  const std::string address = (*runner)->addresses()[0];
  const grpc::Status status =
      StatusOfHello(address, 60 << 20, GRPC_COMPRESS_NONE);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("8388608"));
  EXPECT_EQ(Health(address, kService), "NOT_SERVING");
}

TEST_F(ServerRunnerTest, CompressedMessagesAreRefusedUnread) {
  auto runner = Start(Listening({"127.0.0.1:0"}));
  ASSERT_TRUE(runner.ok()) << runner.status();
  const std::string address = (*runner)->addresses()[0];
  // 60 KiB on the wire.
  const grpc::Status status =
      StatusOfHello(address, 60 << 20, GRPC_COMPRESS_GZIP);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED)
      << status.error_message();
  EXPECT_EQ(Health(address, kService), "NOT_SERVING");
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
    const std::string error =
        "cannot listen on " + address + ": address already in use";
    EXPECT_THAT(ErrorOf(Listening({address})), testing::StartsWith(error));
    EXPECT_THAT(
        std::string(ServerRunner::CanListen(Listening({address})).message()),
        testing::StartsWith(error));
  }
  // The error for a Unix socket names the process that has it.
  EXPECT_THAT(ErrorOf(Listening({unix_address})),
              testing::EndsWith("(process " + std::to_string(getpid()) + ")"));
  v1::ServerConfig config = Listening({"127.0.0.1:0"});
  config.set_metrics_listen(tcp_address);
  EXPECT_THAT(ErrorOf(config),
              testing::AllOf(HasSubstr("server.metrics_listen"),
                             HasSubstr(tcp_address), HasSubstr("in use")));
  const std::string before_loading(ServerRunner::CanListen(config).message());
  EXPECT_THAT(
      before_loading,
      testing::AllOf(HasSubstr("server.metrics_listen: cannot listen"),
                     HasSubstr(tcp_address), HasSubstr("another port")));
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

TEST_F(ServerRunnerTest, CallersCannotMakeSeriesOrSpoilThePage) {
  AddCounter(*registry_, {.name = "espalier_test_total",
                          .help = "h",
                          .labels = {{"name", "a\xff\xed\xa0\x80z\xc3\xa4"}}});
  v1::ServerConfig config = Listening({"127.0.0.1:0"});
  config.set_metrics_listen("127.0.0.1:0");
  auto runner = Start(config);
  ASSERT_TRUE(runner.ok()) << runner.status();
  grpc::GenericStub stub(NewPeerChannel((*runner)->addresses()[0]));
  for (const char* method : {"/a.B/C", "/espalier.v1.Drafter/D",
                             "/espalier.v1.Drafter/\xff", "/x", "no slash"}) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(Generous()));
    const grpc::Slice slice("");
    const grpc::ByteBuffer nothing(&slice, 1);
    grpc::ByteBuffer response;
    Notification done;
    stub.UnaryCall(&context, method, {}, &nothing, &response,
                   [&done](const grpc::Status& status) {
                     EXPECT_FALSE(status.ok());
                     done.Notify();
                   });
    ASSERT_TRUE(done.WaitUntil(Generous()));
  }
  const std::string page = Scrape((*runner)->metrics_address());
  const std::vector<std::string> lines = absl::StrSplit(page, '\n');
  for (const std::string& line : lines) {
    if (!absl::StartsWith(line, "grpc_server_handled_total{")) continue;
    EXPECT_THAT(line, testing::AllOf(HasSubstr("grpc_service=\"unknown\""),
                                     HasSubstr("grpc_method=\"unknown\"")));
  }
  EXPECT_THAT(page, HasSubstr("grpc_service=\"unknown\""));
  EXPECT_THAT(page, HasSubstr("name=\"a????z\xc3\xa4\""));
}

TEST_F(ServerRunnerTest, PagesAreNotForWebCpuGroupsThatPretendToBeUs) {
  v1::ServerConfig config = Listening({"127.0.0.1:0"});
  config.set_metrics_listen("127.0.0.1:0");
  config.add_page_hosts("good.example");
  auto runner = ServerRunner::Start(
      {.config = config,
       .services = {{kService, service_->calls()}},
       .registry = registry_,
       .pages = {{.path = "/",
                  .content_type = "text/plain",
                  .body = [](absl::string_view) { return "secret"; }}}});
  ASSERT_TRUE(runner.ok()) << runner.status();
  const std::string address = (*runner)->metrics_address();
  for (const char* host : {"127.0.0.1:9464", "localhost:9464", "localhost",
                           "[::1]:9464", "good.example:80"}) {
    EXPECT_THAT(Scrape(address, "/", host), HasSubstr("secret")) << host;
  }
  for (const char* host : {"evil.example:9464", "127.0.0.1.evil.example", ""}) {
    EXPECT_THAT(Scrape(address, "/", host), Not(HasSubstr("secret"))) << host;
  }
  EXPECT_THAT(Scrape(address, "/metrics", "evil.example"), HasSubstr("200 OK"));
}

TEST_F(ServerRunnerTest, HalfOpenConnectionsDoNotBlockTheMetrics) {
  v1::ServerConfig config = Listening({"127.0.0.1:0"});
  config.set_metrics_listen("127.0.0.1:0");
  auto runner = Start(config);
  ASSERT_TRUE(runner.ok()) << runner.status();
  std::vector<int> open;
  for (int i = 0; i < 32; ++i) {
    open.push_back(Connect((*runner)->metrics_address()));
    EXPECT_EQ(send(open.back(), "GET", 3, 0), 3);
  }
  // The server drops them in less time than a scrape waits.
  EXPECT_THAT(Scrape((*runner)->metrics_address()), HasSubstr("200 OK"));
  for (int fd : open) close(fd);
}

TEST_F(ServerRunnerTest, AListenerOutlivesALackOfDescriptors) {
  auto runner = Start(Listening({"127.0.0.1:0"}));
  ASSERT_TRUE(runner.ok()) << runner.status();
  const std::string address = (*runner)->addresses()[0];
  ASSERT_EQ(Health(address, ""), "NOT_SERVING");
  std::vector<int> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(socket(AF_INET, SOCK_STREAM, 0));
  }
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = static_cast<rlim_t>(clients.back()) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<int> fillers;
  for (int fd; (fd = dup(0)) >= 0;) fillers.push_back(fd);
  for (int fd : clients) ConnectTo(address, fd);  // none can be accepted
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(Health(address, ""), "NOT_SERVING");
  for (int fd : clients) close(fd);
  for (int fd : fillers) close(fd);
}

TEST_F(ServerRunnerTest, MessagesOfGrpcThatCallersCauseAreBounded) {
  auto runner = Start(Listening({"127.0.0.1:0"}));
  ASSERT_TRUE(runner.ok()) << runner.status();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) gpr_log(GPR_ERROR, "call %d failed", i);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::count(log.begin(), log.end(), '\n'), 25) << log;
}

TEST_F(ServerRunnerTest, OnlyTheOwnUserReachesAUnixSocket) {
  const std::string path = SocketPath("mode");
  auto runner = Start(Listening({"unix:" + path}));
  ASSERT_TRUE(runner.ok()) << runner.status();
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

}  // namespace
}  // namespace espalier
