#include "common/base/notification.h"

#include <thread>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

TEST(Notification, ShowsWhatWasDoneBefore) {
  Notification notification;
  int value = 0;
  std::thread other([&] {
    value = 1;
    notification.Notify();
  });
  notification.Wait();
  EXPECT_EQ(value, 1);
  EXPECT_TRUE(notification.HasBeenNotified());
  other.join();
}

TEST(Notification, WaitUntilTellsWhetherItHappened) {
  Notification notification;
  EXPECT_FALSE(notification.HasBeenNotified());
  EXPECT_FALSE(notification.WaitUntil(absl::Now() + absl::Milliseconds(1)));
  notification.Notify();
  EXPECT_TRUE(notification.WaitUntil(absl::InfinitePast()));
}

TEST(NotificationDeathTest, HappensOnce) {
  Notification notification;
  notification.Notify();
  EXPECT_DEATH(notification.Notify(), "CHECK failed");
}

}  // namespace
}  // namespace espalier
