#include "drafter/heads/cuda_feature_store.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace espalier::drafter {

using DeviceRows = cuda::DeviceArray<cuda::bf16_t>;

// Copies may still read the staging memory.
CudaFeatureStore::~CudaFeatureStore() { static_cast<void>(AwaitCopies()); }

absl::Status CudaFeatureStore::AwaitCopies() {
  if (sent_ == 0) return absl::OkStatus();
  return device_.Wait(std::exchange(sent_, 0));
}

void CudaFeatureStore::Append(SequenceId id, int64_t position,
                              absl::Span<const uint16_t> rows) {
  const int64_t width = contract_.width();
  ESPALIER_CHECK(std::ssize(rows) % width == 0);
  if (rows.empty()) return;
  Held& held = Extend(id, position, std::ssize(rows) / width);
  if (held.status.ok()) held.status = Send(rows, held.PlaceOf(position, width));
}

// An error of the device shows where the rows are read.
absl::StatusOr<FeatureRange> CudaFeatureStore::AppendStored(
    SequenceId id, const StoredFeatures& stored) {
  RETURN_IF_ERROR(ring_.Open(stored.ring));
  FeatureRange added = {stored.first_position(), stored.end_position()};
  const FeatureRange before = {sequences_[id].range.begin, added.begin};
  const int64_t width = contract_.width();
  Held& held = Extend(id, added.begin, added.size());
  if (!held.status.ok()) return added;
  const auto intact = ring_.Read(
      stored.segments, width * static_cast<int64_t>(sizeof(cuda::bf16_t)),
      held.PlaceOf(added.begin, width));
  held.status = intact.status();
  if (!intact.ok()) return added;
  added.begin = *intact;
  if (added.empty()) Cut(id, before);
  return added;
}

CudaFeatureStore::Held& CudaFeatureStore::Extend(SequenceId id,
                                                 int64_t position,
                                                 int64_t count) {
  Held& held = sequences_[id];
  if (held.range.empty()) held.range = {position, position};
  ESPALIER_CHECK(position == held.range.end);
  if (held.status.ok()) held.status = MakeRoom(count, held);
  held.range.end += count;
  return held;
}

// Makes room for further positions: a larger array takes what is held, at its
// front.
absl::Status CudaFeatureStore::MakeRoom(int64_t positions, Held& held) {
  constexpr int64_t kMin = 64;
  const int64_t width = contract_.width(), size = held.range.size();
  const int64_t needed = held.skipped + size + positions;
  if (needed * width <= held.rows.size()) return absl::OkStatus();
  const int64_t room = std::max(kMin, 2 * (size + positions));
  ASSIGN_OR_RETURN(auto larger, DeviceRows::Make(device_, room * width));
  device_.Copy(larger.data(), held.rows.data() + held.skipped * width,
               size * width * static_cast<int64_t>(sizeof(cuda::bf16_t)));
  held.rows = std::move(larger);
  held.skipped = 0;
  return absl::OkStatus();
}

absl::Status CudaFeatureStore::Send(absl::Span<const uint16_t> rows,
                                    cuda::bf16_t* to) {
  RETURN_IF_ERROR(AwaitCopies());
  if (staging_.size() < std::ssize(rows)) {
    staging_ = DeviceRows();
    ASSIGN_OR_RETURN(staging_, DeviceRows::Make(device_, 2 * std::ssize(rows),
                                                cuda::Memory::kHost));
  }
  std::copy(rows.begin(), rows.end(), staging_.data());
  device_.Copy(to, staging_.data(),
               std::ssize(rows) * static_cast<int64_t>(sizeof(cuda::bf16_t)));
  sent_ = device_.Record();
  return absl::OkStatus();
}

void CudaFeatureStore::Cut(SequenceId id, FeatureRange range) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  Held& held = found->second;
  const FeatureRange left = {std::max(range.begin, held.range.begin),
                             std::min(range.end, held.range.end)};
  if (left.empty()) {
    sequences_.erase(found);
    return;
  }
  held.skipped += left.begin - held.range.begin;
  held.range = left;
}

absl::StatusOr<const cuda::bf16_t*> CudaFeatureStore::Rows(
    SequenceId id, FeatureRange range) const {
  const auto found = sequences_.find(id);
  ESPALIER_CHECK(found != sequences_.end());
  const Held& held = found->second;
  ESPALIER_CHECK(held.range.begin <= range.begin &&
                 range.end <= held.range.end);
  RETURN_IF_ERROR(held.status);
  return held.PlaceOf(range.begin, contract_.width());
}

}  // namespace espalier::drafter
