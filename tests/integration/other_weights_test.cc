// A verifier that is restarted with other weights of the same shape and name:
// its texts must not be mixed with those of the first.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/integration/cluster.h"
#include "tests/testing/tiny_model.h"

namespace espalier::testing {
namespace {

constexpr uint32_t kTokens = 450;

v1::GenerateRequest Request() {
  v1::GenerateRequest request;
  request.set_prompt("Once upon a time");
  request.set_temperature(0);
  request.set_max_tokens(kTokens);
  request.set_ignore_eos(true);
  return request;
}

class OtherWeightsTest : public ::testing::Test {
 protected:
  OtherWeightsTest()
      : folder_(NewFolder() + "/tiny"),
        cluster_({.model = Written(folder_),
                  .drafters = {{.name = "lookup", .type = "prompt_lookup"}}}) {
    cluster_.AwaitReady();
  }

  static std::string Written(const std::string& folder) {
    WriteTinyLlama(folder);
    return folder;
  }

  // Generates a text during which the verifier is restarted with other weights,
  // when the first tokens have come.
  Generated GenerateOverARestart() {
    bool is_first = true;
    return Generate(cluster_.stub(), Request(),
                    [&](const v1::GenerateResponse&, grpc::ClientContext&) {
                      if (!std::exchange(is_first, false)) return;
                      cluster_.Kill("verifier");
                      WriteTinyLlama(folder_, ++seed_);
                      cluster_.Start("verifier");
                    });
  }

  const std::string folder_;
  uint64_t seed_ = 1;  // of the weights
  Cluster cluster_;
};

TEST_F(OtherWeightsTest, EndItsTextsAndServeNewOnes) {
  const Generated before = Generate(cluster_.stub(), Request());
  ASSERT_TRUE(before.status.ok()) << before.status.error_message();
  ASSERT_EQ(before.token_ids.size(), kTokens);

  // The text may be over before the verifier is killed.
  Generated cut = GenerateOverARestart();
  for (int i = 0; i < 20 && cut.token_ids.size() == kTokens; ++i) {
    cluster_.AwaitReady();
    cut = GenerateOverARestart();
  }
  EXPECT_EQ(cut.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(cut.status.error_message().find("other weights"), std::string::npos)
      << cut.status.error_message();
  EXPECT_GT(cut.token_ids.size(), 0u);
  EXPECT_LT(cut.token_ids.size(), kTokens);

  cluster_.AwaitReady();
  const Generated after = Generate(cluster_.stub(), Request());
  EXPECT_TRUE(after.status.ok()) << after.status.error_message();
  EXPECT_EQ(after.token_ids.size(), kTokens);
  EXPECT_NE(after.token_ids, before.token_ids);
}

}  // namespace
}  // namespace espalier::testing
