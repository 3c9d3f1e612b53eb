#include "common/model/cuda/mailbox.h"

#include <utility>

#include "common/base/status_macros.h"

namespace espalier {
namespace {

constexpr int64_t kMinBlock = 256 << 10;
constexpr int64_t kAlignment = 256;

}  // namespace

absl::Status Mailbox::Clear() {
  for (Block& block : blocks_) block.used = 0;
  if (copied_ == 0) return absl::OkStatus();
  return device_.Wait(std::exchange(copied_, 0));
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

void Mailbox::Send() {
  for (const Block& block : blocks_) {
    device_.Copy(block.there.data(), block.here.data(), block.used);
  }
  copied_ = device_.Record();
}

void Mailbox::Fetch() {
  for (const Block& block : blocks_) {
    device_.Copy(block.here.data(), block.there.data(), block.used);
  }
  copied_ = device_.Record();
}

}  // namespace espalier
