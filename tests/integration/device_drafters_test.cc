// Draft networks and the target on the emulated device, as processes of their
// own and in one: clients see the target's text, also when either side dies.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/notification.h"
#include "nlohmann/json.hpp"
#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"
#include "tests/integration/wide_model.h"

namespace espalier::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Returns an lm of the target's own weights, so that drafts are accepted.
std::vector<DrafterSpec> Drafters() {
  const std::string folder = WideModelFolder();
  const std::pair<const std::string, std::string> device = {"device",
                                                            "emulated"};
  return {{.name = "eagle",
           .type = "eagle",
           .options = {device, {"model", folder + "/drafters/eagle"}}},
          {.name = "block",
           .type = "dflash",
           .options = {device, {"model", folder + "/drafters/block"}}},
          {.name = "lm", .type = "lm", .options = {device, {"model", folder}}}};
}

Cluster::Options Options(std::vector<std::string> verifier_sets) {
  verifier_sets.insert(verifier_sets.end(),
                       {"engine.device=emulated", "engine.max_tree_nodes=15"});
  return {.model = WideModelFolder(),
          .drafters = Drafters(),
          .coordinator_sets = {kWaitForDrafters},
          .verifier_sets = std::move(verifier_sets)};
}

v1::GetServerInfoResponse Info(Cluster& cluster) {
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  EXPECT_TRUE(cluster.stub().GetServerInfo(&context, {}, &info).ok());
  return info;
}

class DeviceDraftersTest : public ::testing::Test {
 protected:
  DeviceDraftersTest() : cluster_(Options({})) { cluster_.AwaitReady(); }

  Generated Run(const v1::GenerateRequest& request) {
    Generated out = Generate(cluster_.stub(), request);
    EXPECT_TRUE(out.status.ok()) << out.status.error_message();
    EXPECT_EQ(out.token_ids.size(), kWideTokens);
    return out;
  }

  // Features reach it in the verifier's ring: none were sent.
  void ExpectNothingSent(const std::string& drafter) {
    EXPECT_THAT(cluster_.Metrics("coordinator"),
                HasSubstr(absl::StrCat(
                    "espalier_drafter_feature_bytes_total{drafter=\"", drafter,
                    "\"} 0\n")));
  }

  Cluster cluster_;
};

TEST_F(DeviceDraftersTest, FeaturesStayOnTheDevice) {
  const std::vector<std::string> heads = {"eagle", "block"};
  const Generated plain = Run(Plain(WideRequest(0.8f, heads)));
  EXPECT_EQ(Run(WideRequest(0.8f, heads)).token_ids, plain.token_ids);
  for (const std::string& head : heads) ExpectNothingSent(head);
  EXPECT_THAT(
      cluster_.Metrics("verifier"),
      ContainsRegex("\nespalier_verifier_feature_bytes_total[^\n]* 0\n"));
  const v1::GetServerInfoResponse info = Info(cluster_);
  EXPECT_EQ(info.drafters(0).features(), v1::PeerInfo::FEATURES_DEVICE_RING);
  EXPECT_EQ(info.drafters(1).features(), v1::PeerInfo::FEATURES_DEVICE_RING);
  EXPECT_EQ(info.drafters(2).features(), v1::PeerInfo::FEATURES_UNSPECIFIED);
}

// The drafts are the same, token by token.
TEST_F(DeviceDraftersTest, NightlyDraftsAreThoseOfFeaturesThatAreSent) {
  Cluster sending(Options({"engine.feature_ring_mib=0"}));
  sending.AwaitReady();
  EXPECT_EQ(Info(sending).drafters(0).features(), v1::PeerInfo::FEATURES_BYTES);
  for (const char* head : {"eagle", "block"}) {
    const v1::GenerateRequest request = WideRequest(0.8f, {head});
    const Generated read = Run(request);
    const Generated sent = Generate(sending.stub(), request);
    EXPECT_TRUE(sent.status.ok()) << sent.status.error_message();
    EXPECT_EQ(read.token_ids, sent.token_ids);
    const v1::SpecStats &a = read.summary.spec_stats(),
                        &b = sent.summary.spec_stats();
    EXPECT_GT(a.num_draft_tokens(), 0);
    EXPECT_EQ(a.num_draft_tokens(), b.num_draft_tokens()) << head;
    EXPECT_EQ(a.num_accepted_draft_tokens(), b.num_accepted_draft_tokens());
    ExpectNothingSent(head);
  }
}

// Several requests are in the middle of their texts.
TEST_F(DeviceDraftersTest, NightlyADeathUnderLoadChangesNoText) {
  const auto request = [](int i) {
    v1::GenerateRequest one = WideRequest(0.8f, {"eagle"});
    one.set_seed(i);
    one.set_max_tokens(10);
    one.mutable_speculation()->set_max_nodes(4);
    return one;
  };
  constexpr int kRequests = 3;
  std::vector<Generated> plain;
  for (int i = 0; i < kRequests; ++i) {
    plain.push_back(Generate(cluster_.stub(), Plain(request(i))));
    EXPECT_EQ(plain[i].token_ids.size(), 10u);
  }
  for (const char* name : {"eagle", "verifier"}) {
    std::atomic<bool> is_writing = false;
    Notification writes;
    std::vector<Generated> out(kRequests);
    std::vector<std::thread> clients;
    for (int i = 0; i < kRequests; ++i) {
      clients.emplace_back([&, i] {
        out[i] =
            Generate(cluster_.stub(), request(i),
                     [&](const v1::GenerateResponse&, grpc::ClientContext&) {
                       if (!is_writing.exchange(true)) writes.Notify();
                     });
      });
    }
    writes.Wait();
    cluster_.Kill(name);
    cluster_.Start(name);  // by this thread: a process ends with its parent
    for (std::thread& client : clients) client.join();
    for (int i = 0; i < kRequests; ++i) {
      EXPECT_TRUE(out[i].status.ok()) << name << out[i].status.error_message();
      EXPECT_EQ(out[i].token_ids, plain[i].token_ids) << name;
    }
    cluster_.AwaitReady();
  }
  ExpectNothingSent("eagle");
}

TEST_F(DeviceDraftersTest, TextsAreThePlainOnes) {
  for (float temperature : {0.0f, 0.8f}) {
    const Generated plain = Run(Plain(WideRequest(temperature, {})));
    for (const char* name : {"eagle", "block", "lm"}) {
      const Generated out = Run(WideRequest(temperature, {name}));
      EXPECT_EQ(out.token_ids, plain.token_ids) << name;
      EXPECT_GT(out.summary.spec_stats().num_draft_tokens(), 0) << name;
      EXPECT_EQ(out.summary.spec_stats().drafters(0).errors(), 0u) << name;
    }
    const Generated all =
        Run(WideRequest(temperature, {"eagle", "block", "lm"}));
    EXPECT_EQ(all.token_ids, plain.token_ids);
    EXPECT_GT(all.summary.spec_stats().num_accepted_draft_tokens(), 4);
  }
}

// The first message comes in the middle of the text.
TEST_F(DeviceDraftersTest, TheDeathOfEitherSideChangesNoText) {
  const v1::GenerateRequest request =
      WideRequest(0.8f, {"eagle", "block", "lm"});
  const Generated plain = Run(Plain(request));
  for (const char* name : {"lm", "eagle", "verifier"}) {
    bool is_first = true;
    const Generated out =
        Generate(cluster_.stub(), request,
                 [&](const v1::GenerateResponse&, grpc::ClientContext&) {
                   if (!std::exchange(is_first, false)) return;
                   cluster_.Kill(name);
                   cluster_.Start(name);
                 });
    EXPECT_TRUE(out.status.ok()) << name << out.status.error_message();
    EXPECT_EQ(out.token_ids, plain.token_ids) << name;
    cluster_.AwaitReady();
    EXPECT_EQ(Run(request).token_ids, plain.token_ids) << name;
  }
}

// Prompts that begin alike share pages on the device, and the server says what
// is in use there.
TEST_F(DeviceDraftersTest, APromptIsComputedOnce) {
  v1::GenerateRequest request = WideRequest(0.8f, {"lm"});
  request.set_prompt(std::string(100, 'a'));
  const Generated first = Run(request), again = Run(request);
  EXPECT_EQ(first.summary.usage().cached_tokens(), 0u);
  EXPECT_EQ(again.summary.usage().cached_tokens(), 64u);  // whole pages
  EXPECT_EQ(again.token_ids, first.token_ids);
  EXPECT_EQ(Run(Plain(request)).token_ids, first.token_ids);

  const v1::GetServerInfoResponse info = Info(cluster_);
  const v1::PeerInfo::Memory& memory = info.verifier().memory();
  EXPECT_GE(memory.kv_tokens_used(), 100u);
  EXPECT_GT(memory.kv_tokens(), memory.kv_tokens_used());
  EXPECT_EQ(memory.device_bytes(), uint64_t{512} << 20);
  EXPECT_GT(memory.device_bytes_used(), memory.device_bytes() / 2);
}

// `espalier serve` puts networks where the verifier is. Its target is in fp8.
TEST(ServeOnADeviceTest, DraftsThereAndGivesThePlainText) {
  const std::string folder = NewFolder();
  const std::string address = absl::StrCat("unix:", folder, "/serve.sock");
  const std::string program = absl::StrCat(ESPALIER_BIN_DIR, "/espalier");
  Process serve(
      {program, "serve", "--model", WideModelFolder(), "--device", "emulated",
       "--set", "verifier.max_tree_nodes=15", "--set",
       "verifier.compute_type=fp8", "--set", kWaitForDrafters, "--set",
       "server.listen=" + address, "--set", "server.metrics_listen=127.0.0.1:0",
       "--set", absl::StrCat("server.address_file=", folder, "/addresses")},
      folder + "/serve.log");
  const auto generate = [&](std::vector<std::string> flags) {
    std::vector<std::string> args = {
        program,         "generate", "--address",    address,
        "--prompt",      "Once",     "--max-tokens", absl::StrCat(kWideTokens),
        "--ignore-eos",  "--json",   "--seed",       "5",
        "--temperature", "0.8"};
    args.insert(args.end(), flags.begin(), flags.end());
    Finished done;
    for (int i = 0; i < 100 && serve.running(); ++i) {  // until it listens
      done = RunToEnd(args, folder + "/generate.log");
      if (done.status == 0) break;
    }
    EXPECT_EQ(done.status, 0) << done.output << serve.Log();
    return nlohmann::json::parse(done.output, nullptr, false);
  };
  const auto plain = generate({"--no-speculation"});
  const auto drafted = generate(
      {"--drafters", "eagle,block", "--strategy", "union", "--nodes", "8"});
  EXPECT_EQ(drafted["text"], plain["text"]);
  EXPECT_THAT(drafted.dump(), ::testing::HasSubstr("eagle"));
  // Their features stay on the device.
  const std::string addresses = ReadFile(folder + "/addresses");
  const std::string metrics = addresses.substr(addresses.find("metrics ") + 8);
  EXPECT_THAT(
      RunToEnd({"/usr/bin/curl", "-fsS",
                absl::StrCat("http://", metrics.substr(0, metrics.find('\n')),
                             "/metrics")},
               folder + "/curl.out")
          .output,
      ::testing::HasSubstr(
          "espalier_drafter_feature_bytes_total{drafter=\"eagle\"} 0\n"));
  const Finished info =
      RunToEnd({program, "info", "--address", address}, folder + "/info.log");
  EXPECT_THAT(info.output, HasSubstr("(emulated, fp8,"));
  EXPECT_THAT(info.output, HasSubstr("; features: device ring"));
  serve.Signal(15);
  EXPECT_EQ(serve.Wait(), 0) << serve.Log();
  std::filesystem::remove_all(folder);
}

TEST(ServeOnADeviceTest, NamesADeviceThatIsNotHere) {
  const std::string folder = NewFolder();
  const Finished done =
      RunToEnd({absl::StrCat(ESPALIER_BIN_DIR, "/espalier"), "serve", "--model",
                WideModelFolder(), "--device", "tpu", "--set",
                absl::StrCat("server.listen=unix:", folder, "/s.sock"), "--set",
                "server.metrics_listen=none"},
               folder + "/log");
  EXPECT_EQ(done.status, 2) << done.output;
  EXPECT_THAT(done.output, ::testing::HasSubstr("unknown device \"tpu\""));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace espalier::testing
