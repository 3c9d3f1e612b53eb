#include "verifier/engine/shared_prefixes.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace espalier::verifier {
namespace {

constexpr int64_t kMaxLogprobBytes = int64_t{16} << 20;

}  // namespace

SharedPrefixes::SharedPrefixes(const Options& options, LanguageModel& model,
                               VerifierMetrics& metrics)
    : enabled_(options.enabled && model.info().shares_kv),
      model_(model),
      metrics_(metrics),
      features_({.block_tokens = model.info().kv_groups.block_tokens,
                 .max_bytes = options.max_feature_bytes}),
      logprobs_(enabled_ ? kMaxLogprobBytes : 0) {}

void SharedPrefixes::Share(Session& session) {
  if (!enabled_) return;
  const int64_t held = model_.Length(session.cache);
  const absl::Span<const TokenId> text = session.BeforeRoot();
  int64_t wanted = std::ssize(text);
  if (session.WantsPromptLogprobs()) {
    // The others need the logits of every position.
    wanted = std::clamp(session.prompt_logprobs.size(), held, wanted);
  }
  if (session.job != nullptr && !session.taps.empty() && held < wanted) {
    TakeFeatures(text, session);
    wanted = std::clamp(session.features.end_position(), held, wanted);
  }
  const int64_t gained =
      model_.Share(session.cache, text.first(wanted), session.salt);
  if (session.job == nullptr || session.was_preempted) return;
  if (held == 0 && !std::exchange(session.looked_up, true)) {
    metrics_.prefix_queries.Increment(static_cast<double>(text.size()));
  }
  metrics_.prefix_hits.Increment(static_cast<double>(gained));
  session.job->cached_tokens += gained;
}

// Takes the features of positions that the session need not compute. A failure
// to store them shows in the next pass.
void SharedPrefixes::TakeFeatures(absl::Span<const TokenId> text,
                                  Session& session) {
  FeatureRows& features = session.features;
  const int64_t known = features.end_position();
  features_.Extend({text, session.salt, session.taps}, features);
  const int64_t added = features.end_position() - known;
  if (added == 0) return;
  session.open_block = {.first_position = features.end_position(),
                        .width = features.width};
  for (StoredContract& contract : session.stored) {
    std::vector<uint16_t> rows;
    AppendTaps(features.Rows(known, added), session.taps, contract.taps,
               model_.info().config.hidden_size, rows);
    const auto segments = model_.StoreRows(contract.taps, rows, known);
    if (!segments.ok()) continue;
    for (const RingSegment& segment : *segments) {
      AppendSegment(segment, contract.segments);
    }
  }
}

int64_t SharedPrefixes::RoomOfOthers(const Session& session) const {
  if (!enabled_ || session.WantsPromptLogprobs()) return 0;
  const absl::Span<const TokenId> text = session.BeforeRoot();
  int64_t end = model_.HeldPrefix(text, session.salt);
  if (!session.taps.empty()) {
    end = std::min(end,
                   features_.EndAfterExtend({text, session.salt, session.taps},
                                            session.features.end_position()));
  }
  return model_.info().kv_groups.RoomOfPrefix(end);
}

void SharedPrefixes::OfferFeatures(Session& session) {
  const FeatureRows& rows = session.features;
  if (rows.empty() || !enabled_) return;
  FeatureRows& open = session.open_block;
  if (rows.width != open.width || rows.first_position > open.end_position()) {
    open = {.first_position = rows.first_position, .width = rows.width};
  }
  const int64_t known = std::max(open.end_position(), rows.first_position);
  if (rows.end_position() > known) {
    const auto added = rows.Rows(known, rows.end_position() - known);
    open.data.insert(open.data.end(), added.begin(), added.end());
  }
  features_.Offer({session.tokens, session.salt, session.taps}, open);
}

void SharedPrefixes::OfferLogprobs(const Session& session) {
  logprobs_.Offer(session.tokens, session.salt, session.prompt_logprobs);
}

void SharedPrefixes::WantLogprobs(const LogprobRequest& wanted,
                                  Session& session) {
  session.prompt_logprobs = {};
  if (!wanted.prompt) return;
  session.prompt_logprobs.top = static_cast<int32_t>(
      std::min<int64_t>(*wanted.prompt, model_.info().config.vocab_size));
  session.prompt_logprobs =
      logprobs_.Find(session.tokens, session.salt, session.prompt_logprobs.top);
  const int64_t known = session.prompt_logprobs.size();
  if (model_.Length(session.cache) > known) {
    model_.Truncate(session.cache, known);
  }
}

}  // namespace espalier::verifier
