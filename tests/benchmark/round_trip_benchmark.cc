// What a verification's way there and back costs, as services: beside what the
// machine takes to wake a thread, and another process by a socket.

#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/notification.h"
#include "common/base/serial_executor.h"
#include "common/rpc/peer_service.h"
#include "common/rpc/remote_verify_endpoint.h"
#include "common/rpc/server_runner.h"
#include "prometheus/registry.h"
#include "tests/common/rpc/fake_engines.h"
#include "tests/testing/test_certificates.h"

namespace espalier {
namespace {

constexpr int kTokens = 8;  // of a tree

// There and back between two threads.
void Wake(benchmark::State& state) {
  SerialExecutor there("there"), back("back");
  for (auto _ : state) {
    Notification done;
    there.Post([&] { back.Post([&] { done.Notify(); }); });
    done.Wait();
  }
}
BENCHMARK(Wake)->UseRealTime();

// There and back between two processes.
void Socket(benchmark::State& state) {
  int ends[2];
  ESPALIER_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  if (fork() == 0) {
    close(ends[0]);
    for (char byte; read(ends[1], &byte, 1) == 1;) {
      if (write(ends[1], &byte, 1) != 1) break;
    }
    _exit(0);
  }
  close(ends[1]);
  for (auto _ : state) {
    char byte = 0;
    ESPALIER_CHECK(write(ends[0], &byte, 1) == 1);
    ESPALIER_CHECK(read(ends[0], &byte, 1) == 1);
  }
  close(ends[0]);
}
BENCHMARK(Socket)->UseRealTime();

// Posts, like the real one; then its thread is busy for a while.
class BusyEngine final : public VerifyEndpoint {
 public:
  void Verify(VerifyRequest request, absl::Time /*deadline*/,
              Done<VerifyResult> done) override {
    executor_.Post(
        [request = std::move(request), done = std::move(done)]() mutable {
          const auto busy = absl::Microseconds(request.update.sampling.seed);
          const absl::Time end = absl::Now() + busy;
          while (absl::Now() < end) {
          }
          VerifyResult verify_result{
              .round = request.update.round, .tokens = {5}, .rule = "walk"};
          std::move(done)(std::move(verify_result));
        });
  }
  void EndSequence(SequenceId /*sequence*/) override {}

 private:
  SerialExecutor executor_{"engine"};
};

// How the services talk.
enum Wire : int64_t { kUnix, kTcp, kMutualTls };

std::string Folder() {
  static const std::string* const folder =
      new std::string(absl::StrCat("/tmp/round_trip_", getpid()));
  return *folder;
}

std::string File(const std::string& name) {
  return absl::StrCat(Folder(), "/", name);
}

// Makes the folder, with certificates of both sides.
void Prepare() {
  std::filesystem::create_directory(Folder());
  const testing::TestAuthority authority("round trips");
  testing::ReplaceFile(File("ca"), authority.pem());
  for (const std::string who : {"verifier", "coordinator"}) {
    const auto issued = authority.Issue({who});
    testing::ReplaceFile(File(who + ".crt"), issued.certificate);
    testing::ReplaceFile(File(who + ".key"), issued.key);
  }
}

std::string AddressFile(Wire wire) { return File(absl::StrCat("wire", wire)); }

v1::ServerConfig ConfigOf(Wire wire) {
  v1::ServerConfig config;
  config.add_listen(wire == kUnix ? absl::StrCat("unix:", File("socket"))
                                  : "127.0.0.1:0");
  config.set_address_file(AddressFile(wire));
  if (wire != kMutualTls) return config;
  config.mutable_tls()->set_certificate_file(File("verifier.crt"));
  config.mutable_tls()->set_key_file(File("verifier.key"));
  config.mutable_tls()->set_client_ca_file(File("ca"));
  return config;
}

void Serve() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  BusyEngine engine;
  const auto service = NewVerifierService(engine, TestVerifierInfo());
  std::vector<std::unique_ptr<ServerRunner>> runners;
  for (const Wire wire : {kUnix, kTcp, kMutualTls}) {
    auto runner = ServerRunner::Start(
        {.config = ConfigOf(wire),
         .services = {{"espalier.v1.Verifier", service->calls()}},
         .registry = std::make_shared<prometheus::Registry>(),
         .drain = [](absl::Time /*deadline*/) {}});
    ESPALIER_CHECK(runner.ok());
    runners.push_back(*std::move(runner));
  }
  absl::SleepFor(absl::InfiniteDuration());
}

// Waits until the server listens.
std::string AddressOf(Wire wire) {
  std::string kind, address;
  while (address.empty()) {
    std::ifstream(AddressFile(wire)) >> kind >> address;
  }
  return address;
}

PeerOptions Peer(Wire wire, prometheus::Registry& registry) {
  PeerOptions options = {.name = "verifier",
                         .address = AddressOf(wire),
                         .model = TestModel(),
                         .registry = registry};
  if (wire != kMutualTls) return options;
  auto files = CertificateFiles::Open({.certificate = File("coordinator.crt"),
                                       .key = File("coordinator.key"),
                                       .ca = File("ca")});
  ESPALIER_CHECK(files.ok());
  options.tls = {.files = *std::move(files), .server_name = "verifier"};
  return options;
}

// Until a new stream, on a connection of its own, has exchanged hellos.
void Connect(benchmark::State& state) {
  prometheus::Registry registry;
  const PeerOptions options = Peer(static_cast<Wire>(state.range(0)), registry);
  for (auto _ : state) {
    RemoteVerifyEndpoint endpoint(options);
    ESPALIER_CHECK(endpoint.AwaitState(PeerState::kReady, Generous()));
  }
}
BENCHMARK(Connect)->UseRealTime()->Arg(kUnix)->Arg(kTcp)->Arg(kMutualTls);

// Less the time the engine was busy (in microseconds).
void Verify(benchmark::State& state) {
  prometheus::Registry registry;
  RemoteVerifyEndpoint endpoint(
      Peer(static_cast<Wire>(state.range(1)), registry));
  ESPALIER_CHECK(endpoint.AwaitState(PeerState::kReady, Generous()));
  SerialExecutor coordinator("coordinator");
  VerifyRequest request;
  request.update = TestUpdate(1);
  request.update.sampling.seed = static_cast<uint64_t>(state.range(0));
  request.tree = TokenTree::RootOnly(request.update.new_tokens.back());
  for (int i = 0; i < kTokens; ++i) request.tree.Add(i, i, -1);
  const auto busy = absl::Microseconds(state.range(0));
  for (auto _ : state) {
    Notification done;
    const absl::Time begin = absl::Now();
    coordinator.Post([&] {
      endpoint.Verify(request, Generous(), [&](absl::StatusOr<VerifyResult> v) {
        ESPALIER_CHECK(v.ok());
        coordinator.Post([&] { done.Notify(); });
      });
    });
    done.Wait();
    state.SetIterationTime(absl::ToDoubleSeconds(absl::Now() - begin - busy));
  }
}
BENCHMARK(Verify)->UseManualTime()->ArgsProduct({{0, 10'000},
                                                 {kUnix, kTcp, kMutualTls}});

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  espalier::Prepare();
  const pid_t server = fork();  // before gRPC has threads
  if (server == 0) espalier::Serve();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  kill(server, SIGKILL);
  std::filesystem::remove_all(espalier::Folder());
}
