// What a verification's way there and back costs, as services: beside what the
// machine takes to wake a thread, and another process by a socket.

#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/notification.h"
#include "common/base/serial_executor.h"
#include "common/rpc/remote_verify_endpoint.h"
#include "common/rpc/server_runner.h"
#include "prometheus/registry.h"
#include "tests/common/rpc/fake_engines.h"
#include "verifier/verifier_service.h"

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

std::string Address() {
  static const std::string* const address =
      new std::string(absl::StrCat("unix:/tmp/round_trip_", getpid()));
  return *address;
}

void Serve() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  BusyEngine engine;
  verifier::VerifierService service(engine, TestVerifierInfo());
  v1::ServerConfig config;
  config.add_listen(Address());
  const auto runner =
      ServerRunner::Start({.config = config,
                           .services = {{"espalier.v1.Verifier", &service}},
                           .registry = std::make_shared<prometheus::Registry>(),
                           .drain = [](absl::Time /*deadline*/) {}});
  ESPALIER_CHECK(runner.ok());
  absl::SleepFor(absl::InfiniteDuration());
}

// Less the time the engine was busy (in microseconds).
void Verify(benchmark::State& state) {
  prometheus::Registry registry;
  RemoteVerifyEndpoint endpoint({.name = "verifier",
                                 .address = Address(),
                                 .model = TestModel(),
                                 .registry = registry});
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
BENCHMARK(Verify)->UseManualTime()->Arg(0)->Arg(10'000);

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  espalier::Address();
  const pid_t server = fork();  // before gRPC has threads
  if (server == 0) espalier::Serve();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  kill(server, SIGKILL);
}
