// How a pass's requests and answers come to the device and back.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/cuda/cuda_device.h"
#include "common/cuda/emulated_device.h"
#include "common/model/cuda/mailbox.h"
#include "tests/device/tuner.h"

namespace espalier::cuda {
namespace {

constexpr int kRows = 64, kColumns = 64;  // 8 KiB of answers

// A device, and mail for a kernel that takes rows in the order of a request.
class Post {
 public:
  Post(bool emulated, bool carries_mail)
      : device_(Open(emulated, carries_mail)),
        rows_(Rows(*device_)),
        requests_(*device_),
        answers_(*device_) {}

  // Returns whether the answers are those of this round.
  bool RunRound(int round) {
    std::vector<int32_t> wanted(kRows);
    for (int i = 0; i < kRows; ++i) wanted[i] = (i + round) % kRows;
    Check(requests_.Clear());
    Check(answers_.Clear());
    const auto point = requests_.Put(std::vector<int32_t>{0});
    const auto kept = requests_.Put(wanted);
    const auto room = answers_.Reserve<bf16_t>(kRows * kColumns);
    Check(point.status());
    Check(kept.status());
    Check(room.status());
    requests_.Send();
    device_->Launch(GatherTapsArgs{.taps = rows_.data(),
                                   .points = *point,
                                   .kept = *kept,
                                   .num_taps = 1,
                                   .rows = kRows,
                                   .hidden = kColumns,
                                   .num_kept = kRows,
                                   .out = room->there});
    Check(answers_.Receive());
    bool is_right = true;
    for (int i = 0; i < kRows * kColumns; ++i) {
      is_right &= room->here[i] == wanted[i / kColumns];
    }
    return is_right;
  }

 private:
  static void Check(const absl::Status& status) {
    if (status.ok()) return;
    std::cerr << "mail: " << status << std::endl;
    std::exit(1);
  }
  static std::unique_ptr<ComputeDevice> Open(bool emulated, bool carries_mail) {
    if (emulated) {
      return std::make_unique<EmulatedDevice>(
          EmulatedDevice::Options{.carries_mail = carries_mail});
    }
    auto device = OpenCudaDevice(0, {.carries_mail = carries_mail});
    Check(device.status());
    return *std::move(device);
  }
  // Each row has its number in all columns.
  static DeviceArray<bf16_t> Rows(ComputeDevice& device) {
    std::vector<bf16_t> numbers(kRows * kColumns);
    for (int i = 0; i < kRows * kColumns; ++i) {
      numbers[i] = static_cast<bf16_t>(i / kColumns);
    }
    auto rows = DeviceArray<bf16_t>::Make(device, kRows * kColumns);
    Check(rows.status());
    rows->Write(0, numbers);
    Check(device.Wait(device.Record()));
    return *std::move(rows);
  }

  const std::unique_ptr<ComputeDevice> device_;  // outlives what follows
  const DeviceArray<bf16_t> rows_;
  Mailbox requests_, answers_;
};

}  // namespace

// A request of a kernel, and the wait for its answers.
std::vector<Finding> TuneMail(Tuner& tuner) {
  constexpr double kMinGain = 5;  // us of a wait
  const int turns = tuner.tiny() ? 2 : 21, rounds = tuner.tiny() ? 3 : 500;
  Post by_kernels(tuner.tiny(), true), by_copies(tuner.tiny(), false);
  double us[2] = {1e30, 1e30};
  bool is_right = true;
  for (int turn = 0; turn < 2 * turns; ++turn) {
    Post& post = turn % 2 == 0 ? by_kernels : by_copies;
    const absl::Time start = absl::Now();
    for (int i = 0; i < rounds; ++i) {
      is_right &= post.RunRound(turn * rounds + i);
    }
    us[turn % 2] =
        std::min(us[turn % 2],
                 absl::ToDoubleMicroseconds((absl::Now() - start) / rounds));
  }
  const bool is_taken = is_right && us[1] - us[0] >= kMinGain;
  return {{.form = "mail by kernels, and a flag that the host looks at",
           .figure = absl::StrFormat(
               "a request and the wait for 8 KiB: %.1f of %.1f us%s", us[0],
               us[1], is_right ? "" : ", OTHER BITS"),
           .threshold = absl::StrFormat("%.0f us less than copies", kMinGain),
           .is_taken = is_taken,
           .line = is_taken ? "common/cuda/mail_args.h: kCarriesMail = true"
                            : "common/cuda/mail_args.h: kCarriesMail = false",
           .is_in_source = kCarriesMail == is_taken}};
}

}  // namespace espalier::cuda
