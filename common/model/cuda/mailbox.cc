#include "common/model/cuda/mailbox.h"

#include <utility>

#include "common/base/status_macros.h"

namespace espalier {
namespace {

constexpr int64_t kMinBlock = 256 << 10;
constexpr int64_t kAlignment = 256;
static_assert(cuda::kMaxMailBytes <= kMinBlock);

cuda::MailArgs Carry(const std::byte* from, std::byte* to, int64_t bytes) {
  return {.to = reinterpret_cast<unsigned char*>(to),
          .from = reinterpret_cast<const unsigned char*>(from),
          .bytes = bytes};
}

}  // namespace

absl::Status Mailbox::Clear() {
  for (Block& block : blocks_) block.used = 0;
  if (sent_ == 0) return absl::OkStatus();
  return device_.Wait(std::exchange(sent_, 0));
}

absl::StatusOr<Mailbox::Place> Mailbox::Find(int64_t bytes) {
  const int64_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto block = std::find_if(
      blocks_.begin(), blocks_.end(),
      [&](const Block& b) { return b.here.size() - b.used >= size; });
  if (block == blocks_.end()) {
    const int64_t room = std::max(kMinBlock, size);
    Block added;
    ASSIGN_OR_RETURN(added.here, cuda::DeviceArray<std::byte>::Make(
                                     device_, room, cuda::Memory::kHost));
    ASSIGN_OR_RETURN(added.there,
                     cuda::DeviceArray<std::byte>::Make(device_, room));
    blocks_.push_back(std::move(added));
    block = std::prev(blocks_.end());
  }
  const Place place = {.here = block->here.data() + block->used,
                       .there = block->there.data() + block->used};
  block->used += size;
  return place;
}

bool Mailbox::IsCarried() const {
  int64_t used = 0;
  for (const Block& block : blocks_) used += block.used;
  return is_carried_ && used <= cuda::kMaxMailBytes;
}

void Mailbox::Send() {
  for (const Block& block : blocks_) {
    if (block.used == 0) continue;
    if (IsCarried()) {
      device_.Launch(Carry(block.here.data(), block.there.data(), block.used));
    } else {
      device_.Copy(block.there.data(), block.here.data(), block.used);
    }
  }
  sent_ = device_.Record();
}

absl::Status Mailbox::Receive() {
  if (IsCarried()) return ReceiveByKernel();
  for (const Block& block : blocks_) {
    device_.Copy(block.here.data(), block.there.data(), block.used);
  }
  return device_.Wait(device_.Record());
}

absl::Status Mailbox::ReceiveByKernel() {
  if (flag_.data() == nullptr) {
    ASSIGN_OR_RETURN(flag_, cuda::DeviceArray<uint32_t>::Make(
                                device_, 1, cuda::Memory::kHost));
    *flag_.data() = number_;
  }
  cuda::MailArgs args;
  if (!blocks_.empty()) {
    const Block& block = blocks_.front();
    args = Carry(block.there.data(), block.here.data(), block.used);
  }
  args.flag = flag_.data();
  args.number = ++number_;
  device_.Launch(args);
  return device_.WaitForFlag(args.flag, args.number, device_.Record());
}

}  // namespace espalier
