#include "drafter/engine/sequence_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/speculation/prefix_hash.h"
#include "common/speculation/stale_base.h"

namespace espalier::drafter {
namespace {

absl::Status CheckUpdate(const SequenceUpdate& update, int64_t max_tokens) {
  if (update.base_length < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("base_length ", update.base_length, " is negative"));
  }
  if (update.base_length == 0 && update.prefix_hash != kEmptyPrefixHash) {
    return absl::InvalidArgumentError(
        "prefix_hash is not that of an empty prefix, but base_length is 0");
  }
  if (update.base_length == 0 && update.new_tokens.empty()) {
    return absl::InvalidArgumentError(
        "new_tokens: a sequence needs at least one token");
  }
  // Written so that a huge base_length cannot overflow.
  const int64_t added = static_cast<int64_t>(update.new_tokens.size());
  if (added > max_tokens || update.base_length > max_tokens - added) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a sequence of ", update.base_length, " + ", added,
                     " tokens; this drafter holds at most ", max_tokens));
  }
  return absl::OkStatus();
}

}  // namespace

SequenceStore::SequenceStore(const Limits& limits, Forget forget,
                             FeatureStore* features)
    : limits_(limits),
      forget_(std::move(forget)),
      features_(features),
      feature_row_bytes_(features == nullptr
                             ? 0
                             : features->contract().width() *
                                   static_cast<int64_t>(sizeof(uint16_t))) {}

absl::Status SequenceStore::Apply(const SequenceUpdate& update,
                                  absl::Time now) {
  RETURN_IF_ERROR(CheckUpdate(update, limits_.max_tokens));
  const auto found = index_.find(update.sequence);
  const bool held = found != index_.end();
  RETURN_IF_ERROR(CheckBase(held ? &*found->second : nullptr, update));

  const auto sequence = held ? found->second : Open(update.sequence);
  sequences_.splice(sequences_.end(), sequences_, sequence);
  sequence->updated = now;
  Commit(*sequence, update);
  // Ends before `sequence`, which is last and within max_tokens by itself.
  while (num_tokens_ > limits_.max_tokens ||
         (num_sequences() > limits_.max_sequences && num_sequences() > 1)) {
    Drop(sequences_.begin());
  }
  return absl::OkStatus();
}

const std::vector<TokenId>* SequenceStore::Find(SequenceId id) const {
  const auto found = index_.find(id);
  return found == index_.end() ? nullptr : &found->second->tokens;
}

FeatureRange SequenceStore::FeaturesOf(SequenceId id) const {
  const auto found = index_.find(id);
  return found == index_.end() ? FeatureRange() : found->second->features;
}

absl::string_view SequenceStore::SaltOf(SequenceId id) const {
  const auto found = index_.find(id);
  return found == index_.end() ? absl::string_view() : found->second->salt;
}

void SequenceStore::AddFeatures(SequenceId id, const FeatureRows& rows) {
  const auto found = index_.find(id);
  if (found == index_.end() || rows.empty()) return;
  ESPALIER_CHECK(features_ != nullptr);
  ExtendFeatures(*found->second, rows.first_position, rows.end_position(),
                 [&](FeatureRange added) {
                   features_->Append(id, added.begin,
                                     rows.Rows(added.begin, added.size()));
                   return added;
                 });
}

absl::Status SequenceStore::AddStored(SequenceId id,
                                      const StoredFeatures& stored) {
  const auto found = index_.find(id);
  if (found == index_.end() || stored.empty()) return absl::OkStatus();
  ESPALIER_CHECK(features_ != nullptr);
  absl::Status status;
  ExtendFeatures(
      *found->second, stored.first_position(), stored.end_position(),
      [&](FeatureRange lacking) {
        auto added = features_->AppendStored(
            id, {.ring = stored.ring,
                 .segments = SegmentsFrom(lacking.begin, feature_row_bytes_,
                                          stored.segments)});
        status = added.status();
        return added.ok() ? *added : FeatureRange();
      });
  return status;
}

void SequenceStore::ExtendFeatures(
    Sequence& sequence, int64_t begin, int64_t end,
    absl::FunctionRef<FeatureRange(FeatureRange)> append) {
  FeatureRange& held = sequence.features;
  if (!held.empty() && end <= held.end) return;
  if (held.empty() || begin > held.end || begin < held.begin) {
    CutFeatures(sequence, {});
    held = {begin, begin};
  }
  const FeatureRange added = append({held.end, end});
  if (added.empty()) {
    if (held.empty()) held = {};
    return;
  }
  const bool follows = added.begin == held.end;
  num_feature_bytes_ += (end - held.end) * feature_row_bytes_;
  held.end = end;
  if (!follows) CutFeatures(sequence, added);
  if (held.size() * feature_row_bytes_ > limits_.max_feature_bytes) {
    // More than needed, so that the next row does not cause another cut.
    const int64_t kept = limits_.max_feature_bytes / 8 * 7 / feature_row_bytes_;
    CutFeatures(sequence, {held.end - kept, held.end});
  }
  while (num_feature_bytes_ > limits_.max_feature_bytes) {
    Drop(sequences_.begin());
  }
}

void SequenceStore::End(SequenceId id) {
  const auto found = index_.find(id);
  if (found != index_.end()) Drop(found->second);
}

void SequenceStore::DropIdle(absl::Time now) {
  while (!sequences_.empty() &&
         sequences_.front().updated + limits_.max_idle <= now) {
    Drop(sequences_.begin());
  }
}

absl::Status SequenceStore::CheckBase(const Sequence* held,
                                      const SequenceUpdate& update) {
  if (update.base_length == 0) return absl::OkStatus();
  const int64_t length =
      held == nullptr ? 0 : static_cast<int64_t>(held->tokens.size());
  if (update.base_length > length) {
    return StaleBaseError(length, update.base_length);
  }
  const uint64_t hash =
      update.base_length == length
          ? held->hash
          : PrefixHash(
                absl::MakeConstSpan(held->tokens).first(update.base_length));
  // The position where the copies diverge is unknown: start over.
  return hash == update.prefix_hash ? absl::OkStatus()
                                    : StaleBaseError(0, update.base_length);
}

SequenceStore::Sequences::iterator SequenceStore::Open(SequenceId id) {
  const auto sequence = sequences_.insert(
      sequences_.end(), Sequence{.id = id, .hash = kEmptyPrefixHash});
  index_.emplace(id, sequence);
  return sequence;
}

// Keeps tokens that the update repeats, so that only a real rollback makes the
// drafter forget.
void SequenceStore::Commit(Sequence& sequence, const SequenceUpdate& update) {
  std::vector<TokenId>& tokens = sequence.tokens;
  if (update.base_length == 0) sequence.salt = update.cache_salt;
  const auto [kept_end, rest] =
      std::mismatch(tokens.begin() + update.base_length, tokens.end(),
                    update.new_tokens.begin(), update.new_tokens.end());
  num_tokens_ -= static_cast<int64_t>(tokens.size());
  if (kept_end != tokens.end()) {
    forget_(sequence.id);
    tokens.erase(kept_end, tokens.end());
    sequence.hash = PrefixHash(tokens);
    FeatureRange kept = sequence.features;
    kept.end = std::min(kept.end, std::ssize(tokens));
    CutFeatures(sequence, kept);
  }
  for (auto token = rest; token != update.new_tokens.end(); ++token) {
    tokens.push_back(*token);
    sequence.hash = ExtendPrefixHash(sequence.hash, *token);
  }
  num_tokens_ += static_cast<int64_t>(tokens.size());
}

void SequenceStore::Drop(Sequences::iterator sequence) {
  forget_(sequence->id);
  num_tokens_ -= static_cast<int64_t>(sequence->tokens.size());
  CutFeatures(*sequence, {});
  index_.erase(sequence->id);
  sequences_.erase(sequence);
}

void SequenceStore::CutFeatures(Sequence& sequence, FeatureRange kept) {
  const int64_t dropped = sequence.features.size() - kept.size();
  if (dropped == 0) return;
  features_->Cut(sequence.id, kept);
  num_feature_bytes_ -= dropped * feature_row_bytes_;
  sequence.features = kept;
}

}  // namespace espalier::drafter
