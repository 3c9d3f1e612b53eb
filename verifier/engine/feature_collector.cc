#include "verifier/engine/feature_collector.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

namespace espalier::verifier {

void FeatureCollector::Want(const FeatureRequest& wanted,
                            Session& session) const {
  session.wanted = wanted;
  // The coordinator may take this verifier for one that was here before it.
  if (model_.info().feature_ring.id == 0) session.wanted.store.clear();
  std::vector<StoredContract> stored(session.wanted.store.size());
  std::set<int32_t> points(wanted.taps.begin(), wanted.taps.end());
  for (size_t i = 0; i < stored.size(); ++i) {
    stored[i].taps = session.wanted.store[i];
    points.insert(stored[i].taps.begin(), stored[i].taps.end());
    if (i < session.stored.size() && session.stored[i].taps == stored[i].taps) {
      stored[i].segments = std::move(session.stored[i].segments);
    }
  }
  session.stored = std::move(stored);
  const std::vector<int32_t> taps(points.begin(), points.end());
  const bool are_others = taps != session.taps;
  const int64_t cached = model_.Length(session.cache);
  FeatureRows& rows = session.features;
  rows.CutFrom(cached);
  session.open_block.CutFrom(cached);
  if (are_others) session.open_block = {};
  if (rows.empty() || rows.end_position() != cached || are_others) {
    // The ring gets all that it can.
    const int64_t first = session.stored.empty() ? wanted.first_position : 0;
    rows = {.first_position = std::max(cached, first),
            .width = std::ssize(taps) * hidden_size()};
  }
  session.taps = taps;
}

bool FeatureCollector::Collects(const Session& session) const {
  return !session.wanted.taps.empty() || (keeps_all_ && !session.taps.empty());
}

FeatureRows FeatureCollector::Take(Session& session) const {
  FeatureRows all = std::exchange(session.features, {});
  all.CutBefore(session.wanted.first_position);
  if (session.wanted.taps == session.taps || all.empty()) return all;
  FeatureRows rows = {.first_position = all.first_position,
                      .width = std::ssize(session.wanted.taps) * hidden_size()};
  AppendTaps(all.data, session.taps, session.wanted.taps, hidden_size(),
             rows.data);
  return rows;
}

StoredSegments FeatureCollector::TakeStored(Session& session) const {
  StoredSegments taken;
  if (session.stored.empty()) return taken;
  taken.ring_id = model_.info().feature_ring.id;
  for (StoredContract& contract : session.stored) {
    taken.contracts.push_back(std::exchange(contract.segments, {}));
  }
  return taken;
}

}  // namespace espalier::verifier
