#include "verifier/engine/memory_report.h"

#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/testing/fake_executor.h"
#include "tests/testing/scripted_language_model.h"

namespace espalier::verifier {
namespace {

TEST(MemoryReportTest, PublishesThePoolAndTheSessions) {
  FakeExecutor clock;
  prometheus::Registry registry;
  ScriptedLanguageModel model({.pool_tokens = 40});
  VerifierMetrics metrics(registry, "target", {});
  SessionTable sessions(model, clock, 4);
  Session& session = sessions.Open({.sequence = {1, 1}}, {});
  const std::vector<TokenId> tokens = {1, 2, 3};
  ASSERT_TRUE(Prefill(model, session.cache, tokens, 8).ok());
  session.job = std::make_unique<Job>();
  MemoryReport report(model, metrics);
  EXPECT_EQ(report.published().kv_tokens, 0);
  report.Publish(sessions);
  EXPECT_EQ(report.published().kv_tokens, 40);
  EXPECT_EQ(report.published().kv_tokens_used, 3);
  EXPECT_EQ(metrics.sessions_open.Value(), 1);
  EXPECT_EQ(metrics.sessions_without_room.Value(), 1);
  EXPECT_EQ(metrics.kv_usage_ratio.Value(), 3.0 / 40);
}

}  // namespace
}  // namespace espalier::verifier
