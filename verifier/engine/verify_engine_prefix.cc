#include <algorithm>
#include <utility>

#include "verifier/engine/verify_engine.h"

// Prefixes that sessions share: the model's K/V and the features that belong to
// it.

namespace espalier::verifier {

// Offers the session's K/V to others, and takes what they offered of the text
// before the root. Features that the session lacks and nobody kept are not
// given up for it: a head that lacks the prompt's features drafts badly for the
// whole answer, so these positions are computed.
void VerifyEngine::Share(Session& session) {
  if (!shares_prefixes_) return;
  const int64_t held = model_->Length(session.cache);
  const absl::Span<const TokenId> text =
      absl::MakeConstSpan(session.tokens).first(session.tokens.size() - 1);
  int64_t wanted = std::ssize(text);
  if (session.job != nullptr && session.job->request.logprobs.prompt) {
    // The others need the logits of every position.
    wanted = std::clamp(session.prompt_logprobs.size(), held, wanted);
  }
  if (session.job != nullptr && !session.taps.empty() && held < wanted) {
    TakeCachedFeatures(text, session);
    wanted = std::clamp(session.features.end_position(), held, wanted);
  }
  const int64_t gained =
      model_->Share(session.cache, text.first(wanted), session.salt);
  if (session.job == nullptr || session.was_preempted) return;
  if (held == 0 && !std::exchange(session.looked_up, true)) {
    metrics_.prefix_queries.Increment(static_cast<double>(text.size()));
  }
  metrics_.prefix_hits.Increment(static_cast<double>(gained));
  session.job->cached_tokens += gained;
}

// Takes the features of positions that the session need not compute. A failure
// to store them shows in the next pass.
void VerifyEngine::TakeCachedFeatures(absl::Span<const TokenId> text,
                                      Session& session) {
  FeatureRows& features = session.features;
  const int64_t known = features.end_position();
  feature_cache_.Extend({text, session.salt, session.taps}, features);
  const int64_t added = features.end_position() - known;
  if (added == 0) return;
  session.open_block = {.first_position = features.end_position(),
                        .width = features.width};
  for (StoredContract& contract : session.stored) {
    std::vector<uint16_t> rows;
    AppendTaps(features.Rows(known, added), session.taps, contract.taps,
               info_.shape.hidden_size, rows);
    const auto segments = model_->StoreRows(contract.taps, rows, known);
    if (!segments.ok()) continue;
    for (const RingSegment& segment : *segments) {
      AppendSegment(segment, contract.segments);
    }
  }
}

// Returns what Share will take of pages that others hold, for a session that
// holds nothing. If these end before it does, it holds their pages alone; if
// less is left when it is admitted, K/V is computed, and preemption finds the
// room.
int64_t VerifyEngine::RoomOfOthers(const Session& session) const {
  if (!shares_prefixes_ || session.job->request.logprobs.prompt) return 0;
  const absl::Span<const TokenId> text =
      absl::MakeConstSpan(session.tokens).first(session.tokens.size() - 1);
  int64_t end = model_->HeldPrefix(text, session.salt);
  if (!session.taps.empty()) {
    end = std::min(
        end, feature_cache_.EndAfterExtend({text, session.salt, session.taps},
                                           session.features.end_position()));
  }
  return model_->info().kv_groups.RoomOfPrefix(end);
}

// Keeps features of committed positions for other sessions. They follow those
// of the last call, or overlap them; after a gap, a new block begins.
void VerifyEngine::OfferFeatures(Session& session) {
  const FeatureRows& rows = session.features;
  if (rows.empty() || !shares_prefixes_) return;
  FeatureRows& open = session.open_block;
  if (rows.width != open.width || rows.first_position > open.end_position()) {
    open = {.first_position = rows.first_position, .width = rows.width};
  }
  const int64_t known = std::max(open.end_position(), rows.first_position);
  if (rows.end_position() > known) {
    const auto added = rows.Rows(known, rows.end_position() - known);
    open.data.insert(open.data.end(), added.begin(), added.end());
  }
  feature_cache_.Offer({session.tokens, session.salt, session.taps}, open);
}

}  // namespace espalier::verifier
