// What a drafter is told to read of a ring, up to the copies.
#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/cuda/emulated_device.h"
#include "common/model/cuda/ring_reader.h"
#include "common/rpc/convert.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace stored_features_fuzz {

constexpr int64_t kRowBytes = 64;
// Both bytes are equal, as an offset may be odd.
constexpr uint16_t kNumber = 0x0101;
constexpr int64_t kMaxRows = 1000;  // as the committed tokens limit them
// Stand in for those of the ring, which differ in each run.
constexpr uint64_t kId = 7;
constexpr char kHandle[] = "handle";

std::shared_ptr<FeatureRing> NewRing() {
  auto ring = FeatureRing::Make(
      std::make_shared<cuda::EmulatedDevice>(cuda::EmulatedDevice::Options{}),
      16 * kRowBytes);
  ESPALIER_CHECK(ring.ok());
  const std::vector<uint16_t> rows(8 * kRowBytes / 2, kNumber);
  ESPALIER_CHECK((*ring)->PutRows(rows, kRowBytes / 2, 0).ok());
  return *std::move(ring);
}

bool Read(const StoredFeatures& stored, const FeatureRing& ring) {
  cuda::EmulatedDevice device({});
  RingReader reader(device);
  if (!reader.Open(stored.ring).ok() || stored.empty()) return false;
  ESPALIER_CHECK(stored.ring.id == ring.info().id);
  ESPALIER_CHECK(stored.ring.data_bytes == ring.info().data_bytes);
  const int64_t rows = stored.end_position() - stored.first_position();
  if (rows > kMaxRows) return false;
  auto to = cuda::DeviceArray<cuda::bf16_t>::Make(device, rows * kRowBytes / 2);
  const auto first = reader.Read(stored.segments, kRowBytes, to->data());
  ESPALIER_CHECK(first.ok());
  const int64_t intact = (stored.end_position() - *first) * kRowBytes / 2;
  std::vector<uint16_t> read(intact);
  to->Read(to->size() - intact, absl::MakeSpan(read));
  ESPALIER_CHECK(device.Wait(device.Record()).ok());
  ESPALIER_CHECK(std::all_of(read.begin(), read.end(), [](uint16_t number) {
    return number == kNumber;
  }));
  return true;
}

std::vector<std::string> Seeds() {
  StoredFeatures stored;
  stored.ring.id = kId;
  stored.ring.data_bytes = 16 * kRowBytes;
  stored.ring.handle = kHandle;
  stored.segments = {{0, 5, 0}, {5, 3, 5 * kRowBytes}};
  return {ToProto(stored).SerializeAsString()};
}

bool Try(std::string_view bytes) {
  v1::StoredFeatures message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return false;
  }
  absl::StatusOr<StoredFeatures> parsed = FromProto(message);
  if (!parsed.ok()) return false;
  StoredFeatures stored = *std::move(parsed);
  const std::shared_ptr<FeatureRing> ring = NewRing();
  if (stored.ring.id == kId) stored.ring.id = ring->info().id;
  if (stored.ring.handle == kHandle) stored.ring.handle = ring->info().handle;
  return Read(stored, *ring);
}

}  // namespace stored_features_fuzz

FuzzTarget StoredFeaturesTarget() {
  return {"stored_features", stored_features_fuzz::Seeds,
          stored_features_fuzz::Try};
}

}  // namespace espalier::testing
