#ifndef ESPALIER_TESTS_INTEGRATION_CLUSTER_H_
#define ESPALIER_TESTS_INTEGRATION_CLUSTER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "espalier/v1/inference.grpc.pb.h"
#include "tests/integration/process.h"

namespace espalier::testing {

struct DrafterSpec {
  std::string name;
  std::string type;
  std::map<std::string, std::string> options = {};
  bool in_node = false;  // in the verifier's process, which is espalier-node
  bool in_coordinator = false;  // in the coordinator's process
};

// This is for tests of the drafts themselves: on a busy machine, a late tree
// would be missing.
inline constexpr char kWaitForDrafters[] = "core.draft_timeout_ms=10000";

// A verifier, drafters and a coordinator as processes of their own, talking
// over Unix sockets in a folder of their own.
class Cluster {
 public:
  struct Options {
    std::string model;  // folder
    std::vector<DrafterSpec> drafters;
    std::vector<std::string> coordinator_sets = {};  // "path=value"
    std::vector<std::string> verifier_sets = {};
    std::vector<std::string> drafter_sets = {};  // of those with own processes
    std::string verifier_program = "";           // empty: espalier-verifier
    // The second is the process "coordinator2".
    int coordinators = 1;
  };

  explicit Cluster(Options options);
  ~Cluster();

  // Start the process of that name ("verifier", which is the node if there is
  // one, "coordinator", or that of a drafter that has its own); kill and forget
  // it; send it a signal.
  void Start(const std::string& name);
  void Kill(const std::string& name);
  void Signal(const std::string& name, int signal);
  Process& process(const std::string& name) { return *processes_.at(name); }

  // Until verifier and all named drafters are READY to every coordinator; fails
  // the test if not within a generous time.
  void AwaitReady(const std::vector<std::string>& drafters);
  void AwaitReady();

  v1::Inference::Stub& stub() { return *stubs_.front(); }
  // Clients of all coordinators, in their order.
  const std::vector<std::unique_ptr<v1::Inference::Stub>>& stubs() const {
    return stubs_;
  }
  // The coordinators' addresses, as clients take them.
  std::string Addresses() const;
  std::string Address(const std::string& name) const;
  std::string Path(const std::string& file) const { return dir_ + "/" + file; }
  // Returns the text of /metrics.
  std::string Metrics(const std::string& name) const;
  // Until /metrics of a process has `line`: what a client does reaches the
  // peers of the coordinator some time after the client's answer. Fails the
  // test if that takes longer than a generous time.
  void AwaitMetric(const std::string& name, const std::string& line) const;

 private:
  void WriteConfigs();
  void WriteCoordinators(const std::string& drafters) const;
  bool HasNode() const;
  void AwaitReady(v1::Inference::Stub& stub,
                  const std::vector<std::string>& drafters);
  std::string Server(const std::string& name) const;

  const Options options_;
  const std::string dir_;
  std::map<std::string, std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<v1::Inference::Stub>> stubs_;
};

struct Generated {
  grpc::Status status;
  std::vector<uint32_t> token_ids;
  std::string text;
  v1::GenerateSummary summary;
  int num_messages = 0;
};

// Runs a request to its end; `on_message` sees each message as it comes.
// `tenant`: as a gateway would name it; empty: none.
Generated Generate(
    v1::Inference::Stub& stub, const v1::GenerateRequest& request,
    const std::function<void(const v1::GenerateResponse&,
                             grpc::ClientContext&)>& on_message = nullptr,
    const std::string& tenant = "");

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_INTEGRATION_CLUSTER_H_
