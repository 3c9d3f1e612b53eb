#include "common/rpc/sequence_owners.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace espalier {

absl::StatusOr<std::optional<SequenceId>> SequenceOwners::Claim(
    SequenceId sequence, Stream stream) {
  MutexLock lock(&mutex_);
  const auto found = owned_.find(sequence);
  if (found != owned_.end()) {
    if (found->second.stream != stream) {
      return absl::PermissionDeniedError("the sequence is another stream's");
    }
    ++found->second.in_progress;
    return std::nullopt;
  }
  std::optional<SequenceId> taken;
  if (owned_.size() >= kMaxSequences) {
    taken = TakeOneFor(stream);
    if (!taken) {
      return absl::ResourceExhaustedError(
          absl::StrCat("more than ", kMaxSequences, " sequences are open"));
    }
  }
  owned_.emplace(sequence, Owned{.stream = stream, .in_progress = 1});
  ++counts_[stream];
  return taken;
}

// Takes a sequence from the stream with the most of them.
std::optional<SequenceId> SequenceOwners::TakeOneFor(Stream stream) {
  const auto own = counts_.find(stream);
  const size_t has = own == counts_.end() ? 0 : own->second;
  const auto most = std::max_element(
      counts_.begin(), counts_.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == counts_.end() || most->second <= has + 1) return std::nullopt;
  const auto entry = std::find_if(
      owned_.begin(), owned_.end(),
      [&](const auto& owned) { return owned.second.stream == most->first; });
  const SequenceId taken = entry->first;
  Erase(entry);
  return taken;
}

void SequenceOwners::Erase(Entries::iterator entry) {
  const auto count = counts_.find(entry->second.stream);
  if (--count->second == 0) counts_.erase(count);
  owned_.erase(entry);
}

bool SequenceOwners::Settle(SequenceId sequence, Stream stream, bool success) {
  MutexLock lock(&mutex_);
  const auto found = owned_.find(sequence);
  if (found == owned_.end() || found->second.stream != stream) return false;
  Owned& owned = found->second;
  --owned.in_progress;
  owned.established |= success;
  if (owned.established || owned.in_progress > 0) return false;
  Erase(found);
  return true;
}

bool SequenceOwners::Release(SequenceId sequence, Stream stream) {
  MutexLock lock(&mutex_);
  const auto found = owned_.find(sequence);
  if (found == owned_.end() || found->second.stream != stream) return false;
  Erase(found);
  return true;
}

std::vector<SequenceId> SequenceOwners::ReleaseAll(Stream stream) {
  MutexLock lock(&mutex_);
  std::vector<SequenceId> released;
  if (!counts_.contains(stream)) return released;
  for (const auto& [sequence, owned] : owned_) {
    if (owned.stream == stream) released.push_back(sequence);
  }
  for (SequenceId sequence : released) owned_.erase(sequence);
  counts_.erase(stream);
  return released;
}

bool SequenceOwners::OwnsAny(Stream stream) const {
  MutexLock lock(&mutex_);
  return counts_.contains(stream);
}

bool SequenceOwners::Owns(SequenceId sequence, Stream stream) const {
  MutexLock lock(&mutex_);
  const auto found = owned_.find(sequence);
  return found != owned_.end() && found->second.stream == stream;
}

}  // namespace espalier
