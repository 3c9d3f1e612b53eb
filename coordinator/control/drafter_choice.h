#ifndef ESPALIER_COORDINATOR_CONTROL_DRAFTER_CHOICE_H_
#define ESPALIER_COORDINATOR_CONTROL_DRAFTER_CHOICE_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "coordinator/control/draft_call.h"
#include "coordinator/control/speculation_record.h"

namespace espalier::coordinator {

// Decides which drafters a session asks: those whose tokens are worth the time
// that they take, at the price of what the session emits in that time. It makes
// one change at a time, of one drafter or of one for another. Drafters that
// answer in next to no time are asked first; if their trees suffice, as in
// copied text, no other is asked. Where they do not pay, they are asked only in
// some rounds, so that what they cost stays below what can be measured.
//
// Drafters that compute at once slow each other down. When none is left whose
// answer takes time, the best of those whose time was measured like that is
// asked alone for some rounds.
//
// A drafter that is not asked is probed after some rounds in which no drafter
// predicted a token: asked, but not waited for. It first has to catch up with
// all the text since it was last asked, so a probe ends with the first tree
// that arrives in its round, or after a few rounds. Probes that change nothing
// become rarer, and those of all sessions share a budget. Lives on the
// executor.
class DrafterChoice {
 public:
  // The price of time: the tokens that the session emits in a second, and the
  // number of other sessions, which emit as much each. Time on the verifier's
  // cores costs all sessions.
  struct TimePrice {
    TimePrice(double rate, double other_sessions = 0)  // NOLINT: a price
        : tokens_per_second(rate), others(other_sessions) {}
    double tokens_per_second;
    double others;
  };

  // By drafter of this session: `prior` is what other sessions learned;
  // `probes` are borrowed.
  DrafterChoice(std::vector<DrafterValue> prior,
                std::vector<ProbeBudget*> probes);

  // Whether the drafter is asked in the round that begins.
  bool asks(int drafter) const { return values_[drafter].asked; }
  // Whether its answer costs next to nothing, as far as is known.
  bool IsQuick(int drafter, TimePrice price) const;
  // Whether a quick drafter is asked in the round that begins: always if it
  // pays, otherwise as often as costs next to nothing.
  bool IsDue(int drafter, TimePrice price) const;
  // Whether its usual gain, times the probability `nothing_else` that the other
  // drafters predict nothing, is worth its time.
  bool IsWorthwhile(int drafter, double nothing_else, TimePrice price) const;
  // Whether it should be probed in the round that begins,
  bool Probes(int drafter, TimePrice price) const;
  // and that it is.
  void BeginProbe(int drafter, TimePrice price);
  // Rounds from the one that begins for which no drafter is asked or probed.
  int64_t RoundsToRest(TimePrice price) const;
  // How long the round may wait for this drafter alone.
  absl::Duration Patience(int drafter, double tokens_per_second) const;

  // Ends the round. returns: by drafter.
  void Learn(absl::Span<const DrafterReturn> returns, TimePrice price);

  // Ends a round in which no drafter was asked or probed.
  void LearnRest();

  const std::vector<DrafterValue>& values() const { return values_; }

 private:
  void LearnGains(absl::Span<const DrafterReturn> returns);
  void LearnSeconds(absl::Span<const DrafterReturn> returns);
  void CountProbes(absl::Span<const DrafterReturn> returns, TimePrice price);
  void CountPauses(absl::Span<const DrafterReturn> returns);
  void Reconsider(TimePrice price);
  // Returns: whether it makes a change.
  bool ChangeOne(TimePrice price);
  void TryOneAlone(TimePrice price);
  // How much its gain alone exceeds the best of the other asked drafters,
  // `without` left out.
  double Lead(int drafter, int without) const;
  // Gain of a round if i is switched (on or off), or exchanged for j if they
  // differ, not counting the time to draft.
  double TokensWithChanged(int i, int j) const;
  void Change(const std::vector<bool>& asked);
  // What a probe of this duration costs all sessions, in tokens.
  static double ProbeCost(double shared_seconds, TimePrice price);
  double ExpectedProbeCost(int drafter, TimePrice price) const;
  int64_t RoundsToProbe(int drafter, TimePrice price) const;
  int64_t RoundsToTurn(int drafter, TimePrice price) const;
  // What a drafter's time costs all sessions, in tokens.
  double Cost(int drafter, TimePrice price) const;
  // What the time of the asked drafters costs all sessions, in tokens.
  double Cost(const std::vector<bool>& asked, TimePrice price) const;

  int num_drafters() const { return static_cast<int>(values_.size()); }

  std::vector<DrafterValue> values_;
  const std::vector<ProbeBudget*> probes_;
  // As last reported.
  std::vector<uint64_t> cpu_groups_;
  std::vector<bool> active_;
  std::vector<bool> kept_up_;    // answered in the last round
  std::vector<int64_t> pauses_;  // rounds since it was last asked
  int64_t round_ = 0;
  int64_t last_change_ = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_DRAFTER_CHOICE_H_
