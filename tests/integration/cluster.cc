#include "tests/integration/cluster.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace espalier::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(60);
// Between two looks at processes of our own, which need the cores themselves.
constexpr auto kPause = std::chrono::milliseconds(10);

// "coordinator" is the first one, "coordinator2" the second.
std::string Coordinator(int index) {
  return index == 0 ? "coordinator" : absl::StrCat("coordinator", index + 1);
}

bool IsCoordinator(const std::string& name) {
  return absl::StartsWith(name, "coordinator");
}

std::string BinaryOf(const std::string& name) {
  const std::string program = name == "verifier" || name == "node" ? name
                              : IsCoordinator(name) ? "coordinator"
                                                    : "drafter";
  return absl::StrCat(ESPALIER_BIN_DIR, "/espalier-", program);
}

std::string OptionsOf(const DrafterSpec& drafter) {
  std::string options;
  for (const auto& [key, value] : drafter.options) {
    absl::StrAppend(&options, "options { key: \"", key, "\" value: \"", value,
                    "\" }\n");
  }
  return options;
}

}  // namespace

Cluster::Cluster(Options options)
    : options_(std::move(options)), dir_(NewFolder()) {
  WriteConfigs();
  Start("verifier");
  for (const DrafterSpec& drafter : options_.drafters) {
    if (!drafter.in_node && !drafter.in_coordinator) Start(drafter.name);
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  for (int i = 0; i < options_.coordinators; ++i) {
    const std::string name = Coordinator(i);
    Start(name);
    stubs_.push_back(v1::Inference::NewStub(grpc::CreateCustomChannel(
        Address(name), grpc::InsecureChannelCredentials(), arguments)));
  }
}

Cluster::~Cluster() {
  // A failure of any test of the suite so far: one cluster may serve them all.
  const auto* suite = ::testing::UnitTest::GetInstance()->current_test_suite();
  if (suite != nullptr && suite->Failed()) {
    for (auto& [name, process] : processes_) {
      std::cerr << "log of " << name << ":\n" << process->Log() << "\n";
    }
  }
  processes_.clear();
  std::filesystem::remove_all(dir_);
}

std::string Cluster::Address(const std::string& name) const {
  return absl::StrCat("unix:", dir_, "/", name, ".sock");
}

std::string Cluster::Addresses() const {
  std::vector<std::string> addresses;
  for (int i = 0; i < options_.coordinators; ++i) {
    addresses.push_back(Address(Coordinator(i)));
  }
  return absl::StrJoin(addresses, ",");
}

std::string Cluster::Server(const std::string& name) const {
  return absl::StrCat("server { listen: \"", Address(name),
                      "\" metrics_listen: \"127.0.0.1:0\" address_file: \"",
                      Path(name + ".addresses"), "\" drain_seconds: 2 }\n");
}

bool Cluster::HasNode() const {
  return std::any_of(
      options_.drafters.begin(), options_.drafters.end(),
      [](const DrafterSpec& drafter) { return drafter.in_node; });
}

void Cluster::WriteConfigs() {
  std::string verifier = absl::StrCat(Server("verifier"), "engine { model: \"",
                                      options_.model, "\" threads: 1 }\n");
  if (HasNode()) verifier = absl::StrCat("verifier {\n", verifier, "}\n");
  std::string drafters;  // of the coordinators
  for (const DrafterSpec& drafter : options_.drafters) {
    const std::string options = OptionsOf(drafter);
    if (drafter.in_coordinator) {
      absl::StrAppend(&drafters, "drafters { name: \"", drafter.name,
                      "\" type: \"", drafter.type, "\"\n", options, "}\n");
      continue;
    }
    absl::StrAppend(&drafters, "drafters { name: \"", drafter.name,
                    "\" address: \"", Address(drafter.name), "\" }\n");
    const std::string config = absl::StrCat(
        Server(drafter.name), "engine { name: \"", drafter.name, "\" type: \"",
        drafter.type, "\" model: \"", options_.model, "\"\n", options, "}\n");
    if (drafter.in_node) {
      absl::StrAppend(&verifier, "drafters {\n", config, "}\n");
    } else {
      WriteFile(Path(drafter.name + ".textproto"), config);
    }
  }
  WriteFile(Path("verifier.textproto"), verifier);
  WriteCoordinators(drafters);
}

void Cluster::WriteCoordinators(const std::string& drafters) const {
  for (int i = 0; i < options_.coordinators; ++i) {
    const std::string name = Coordinator(i);
    WriteFile(Path(name + ".textproto"),
              absl::StrCat(Server(name), "model: \"", options_.model,
                           "\"\nverifier: \"", Address("verifier"), "\"\n",
                           drafters));
  }
}

void Cluster::Start(const std::string& name) {
  const bool is_special =
      name == "verifier" && !options_.verifier_program.empty();
  const bool is_node = name == "verifier" && HasNode();
  std::vector<std::string> argv = {is_special
                                       ? options_.verifier_program
                                       : BinaryOf(is_node ? "node" : name),
                                   "--config", Path(name + ".textproto")};
  const std::vector<std::string>* sets =
      IsCoordinator(name)  ? &options_.coordinator_sets
      : name == "verifier" ? &options_.verifier_sets
                           : &options_.drafter_sets;
  // Tests count the messages and tokens of their own requests.
  if (IsCoordinator(name)) {
    argv.insert(argv.end(), {"--set", "core.warm_up=false"});
  }
  for (const std::string& set : *sets) {
    argv.insert(argv.end(),
                {"--set", absl::StrCat(is_node ? "verifier." : "", set)});
  }
  processes_[name] = std::make_unique<Process>(argv, Path(name + ".log"));
}

void Cluster::Kill(const std::string& name) { processes_.at(name)->Kill(); }

void Cluster::Signal(const std::string& name, int signal) {
  processes_.at(name)->Signal(signal);
}

void Cluster::AwaitReady() {
  std::vector<std::string> names;
  for (const DrafterSpec& drafter : options_.drafters) {
    names.push_back(drafter.name);
  }
  AwaitReady(names);
}

void Cluster::AwaitReady(const std::vector<std::string>& drafters) {
  for (const auto& stub : stubs_) AwaitReady(*stub, drafters);
}

void Cluster::AwaitReady(v1::Inference::Stub& stub,
                         const std::vector<std::string>& drafters) {
  const auto give_up = Clock::now() + kPatience;
  v1::GetServerInfoResponse info;
  while (Clock::now() < give_up) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    info.Clear();
    if (stub.GetServerInfo(&context, {}, &info).ok()) {
      size_t ready = 0;
      for (const v1::PeerInfo& peer : info.drafters()) {
        for (const std::string& name : drafters) {
          ready += peer.name() == name && peer.state() == v1::PEER_STATE_READY;
        }
      }
      if (info.verifier().state() == v1::PEER_STATE_READY &&
          ready == drafters.size()) {
        return;
      }
    }
    std::this_thread::sleep_for(kPause);
  }
  FAIL() << "not ready: " << info.ShortDebugString();
}

void Cluster::AwaitMetric(const std::string& name,
                          const std::string& line) const {
  const auto give_up = Clock::now() + kPatience;
  std::string text;
  while (Clock::now() < give_up) {
    text = Metrics(name);
    if (text.find("\n" + line + "\n") != std::string::npos) return;
    std::this_thread::sleep_for(kPause);
  }
  FAIL() << name << " never exported " << line << "; last:\n" << text;
}

std::string Cluster::Metrics(const std::string& name) const {
  std::string address;
  const std::string addresses = ReadFile(Path(name + ".addresses"));
  const size_t at = addresses.find("metrics ");
  if (at != std::string::npos) {
    address = addresses.substr(at + 8, addresses.find('\n', at) - at - 8);
  }
  return RunToEnd({"/usr/bin/curl", "-fsS",
                   absl::StrCat("http://", address, "/metrics")},
                  Path("curl.out"))
      .output;
}

Generated Generate(v1::Inference::Stub& stub,
                   const v1::GenerateRequest& request,
                   const std::function<void(const v1::GenerateResponse&,
                                            grpc::ClientContext&)>& on_message,
                   const std::string& tenant) {
  Generated out;
  grpc::ClientContext context;
  if (!tenant.empty()) context.AddMetadata("x-tenant", tenant);
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  auto reader = stub.Generate(&context, request);
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
    ++out.num_messages;
    out.token_ids.insert(out.token_ids.end(), message.token_ids().begin(),
                         message.token_ids().end());
    out.text += message.text();
    if (message.has_summary()) out.summary = message.summary();
    if (on_message) on_message(message, context);
  }
  out.status = reader->Finish();
  return out;
}

}  // namespace espalier::testing
