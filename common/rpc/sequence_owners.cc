#include "common/rpc/sequence_owners.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace espalier {

absl::Status SequenceOwners::Claim(SequenceId sequence, Stream stream) {
  MutexLock lock(&mutex_);
  const auto found = owner_.find(sequence);
  if (found != owner_.end()) {
    if (found->second == stream) return absl::OkStatus();
    return absl::PermissionDeniedError("the sequence is another stream's");
  }
  if (owner_.size() >= kMaxSequences) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxSequences, " sequences are open"));
  }
  owner_.emplace(sequence, stream);
  return absl::OkStatus();
}

bool SequenceOwners::Release(SequenceId sequence, Stream stream) {
  MutexLock lock(&mutex_);
  auto found = owner_.find(sequence);
  if (found == owner_.end() || found->second != stream) return false;
  owner_.erase(found);
  return true;
}

std::vector<SequenceId> SequenceOwners::ReleaseAll(Stream stream) {
  MutexLock lock(&mutex_);
  std::vector<SequenceId> released;
  for (const auto& [sequence, owner] : owner_) {
    if (owner == stream) released.push_back(sequence);
  }
  for (SequenceId sequence : released) owner_.erase(sequence);
  return released;
}

bool SequenceOwners::OwnsAny(Stream stream) const {
  MutexLock lock(&mutex_);
  return std::any_of(owner_.begin(), owner_.end(), [stream](const auto& entry) {
    return entry.second == stream;
  });
}

bool SequenceOwners::Owns(SequenceId sequence, Stream stream) const {
  MutexLock lock(&mutex_);
  auto found = owner_.find(sequence);
  return found != owner_.end() && found->second == stream;
}

}  // namespace espalier
