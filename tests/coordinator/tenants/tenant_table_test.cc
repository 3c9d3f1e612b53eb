#include "coordinator/tenants/tenant_table.h"

#include "common/speculation/request_errors.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1000);

class TenantTableTest : public ::testing::Test {
 protected:
  // -1: there is none.
  double Value(const std::string& name, const std::string& tenant,
               const std::string& label) {
    for (const auto& family : registry_.Collect()) {
      if (family.name != name) continue;
      for (const auto& metric : family.metric) {
        bool has_tenant = false, has_label = label.empty();
        for (const auto& pair : metric.label) {
          has_tenant |= pair.name == "tenant" && pair.value == tenant;
          has_label |= pair.value == label;
        }
        if (has_tenant && has_label) {
          return metric.counter.value + metric.gauge.value;
        }
      }
    }
    return -1;
  }

  prometheus::Registry registry_;
  TenantTable table_{&registry_};
};

TEST_F(TenantTableTest, WithoutAListAllAreOneTenant) {
  EXPECT_FALSE(table_.is_divided());
  EXPECT_EQ(table_.NameOf("anybody"), "other");
  EXPECT_FALSE(table_.Lists("anybody"));
  EXPECT_EQ(table_.PlacesOf("other", 64), 64);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(table_.TakeRequest("other", kNow).ok());
  }
  EXPECT_TRUE(registry_.Collect().empty());
}

TEST_F(TenantTableTest, PlacesAreDividedByWeight) {
  table_.Set({{.name = "a", .weight = 5}, {.name = "b", .weight = 2}});
  EXPECT_TRUE(table_.is_divided());
  EXPECT_EQ(table_.PlacesOf("a", 64), 40);
  EXPECT_EQ(table_.PlacesOf("b", 64), 16);
  EXPECT_EQ(table_.PlacesOf(table_.NameOf("stranger"), 64), 8);
  EXPECT_EQ(table_.PlacesOf("b", 2), 1) << "everybody may wait";
}

TEST_F(TenantTableTest, QuotasAreOfEachTenant) {
  table_.Set({{.name = "a", .requests_per_minute = 2},
              {.name = "b", .tokens_per_minute = 60}});
  EXPECT_TRUE(table_.TakeRequest("a", kNow).ok());
  EXPECT_TRUE(table_.TakeRequest("a", kNow).ok());
  const absl::Status refused = table_.TakeRequest("a", kNow);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), "QUOTA_EXCEEDED");
  EXPECT_EQ(refused.message(), "the tenant's requests a minute are used up");
  EXPECT_EQ(RetryAfter(refused), absl::Seconds(30));
  table_.Use("b", {.prompt = 30}, kNow);
  EXPECT_TRUE(table_.TakeRequest("b", kNow).ok());
  table_.Use("b", {.answer = 40}, kNow);
  const absl::Status tokens = table_.TakeRequest("b", kNow);
  EXPECT_EQ(tokens.message(), "the tenant's tokens a minute are used up");
  EXPECT_EQ(RetryAfter(tokens), absl::Seconds(11));
  EXPECT_TRUE(table_.TakeRequest("b", kNow + absl::Seconds(11)).ok());
  EXPECT_TRUE(table_.TakeRequest("other", kNow).ok());
  EXPECT_EQ(Value("espalier_tenant_requests_total", "a", "admitted"), 2);
  EXPECT_EQ(Value("espalier_tenant_requests_total", "a", "over_quota"), 1);
  EXPECT_EQ(Value("espalier_tenant_tokens_total", "b", "prompt"), 30);
  EXPECT_EQ(Value("espalier_tenant_tokens_total", "b", "answer"), 40);
}

TEST_F(TenantTableTest, ANewListKeepsWhatWasUsed) {
  table_.Set({{.name = "a", .requests_per_minute = 1}});
  EXPECT_TRUE(table_.TakeRequest("a", kNow).ok());
  table_.Set({{.name = "b"}, {.name = "a", .requests_per_minute = 1}});
  EXPECT_FALSE(table_.TakeRequest("a", kNow).ok());
  table_.Set({{.name = "a"}});
  EXPECT_TRUE(table_.TakeRequest("a", kNow).ok());
}

// Their outputs end later; until then they are not the other tenants'.
TEST_F(TenantTableTest, ATenantThatLeavesKeepsItsLiveOutputs) {
  table_.Set({{.name = "a", .weight = 9}});
  table_.AddLoad("a", {.waiting = 1, .running = 2});
  table_.AddLoad("other", {.waiting = 4});
  table_.Set({{.name = "b"}});
  EXPECT_EQ(table_.NameOf("a"), "other");
  EXPECT_EQ(table_.WeightOf("a"), 1);
  EXPECT_EQ(table_.WaitingOf("a"), 1);
  table_.AddLoad("a", {.waiting = -1, .running = -2});
  EXPECT_EQ(table_.WaitingOf("other"), 4);
  EXPECT_EQ(Value("espalier_tenant_outputs", "a", "running"), 0);
  EXPECT_EQ(Value("espalier_tenant_outputs", "other", "waiting"), 4);
}

TEST_F(TenantTableTest, OtherMayBeInTheList) {
  table_.Set({{.name = "other", .weight = 3, .requests_per_minute = 1},
              {.name = "a"}});
  EXPECT_EQ(table_.PlacesOf("other", 40), 30);
  EXPECT_TRUE(table_.TakeRequest(table_.NameOf("x"), kNow).ok());
  EXPECT_FALSE(table_.TakeRequest(table_.NameOf("y"), kNow).ok());
}

}  // namespace
}  // namespace espalier::coordinator
