#ifndef ESPALIER_COORDINATOR_CONTROL_DRAFTER_POLICY_H_
#define ESPALIER_COORDINATOR_CONTROL_DRAFTER_POLICY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "coordinator/control/draft_call.h"
#include "coordinator/control/speculation_record.h"

namespace espalier::coordinator {

// Decides which drafters a session asks. A function of what was measured:
//   * A drafter is used if the lower bound of its gain is worth the upper bound
//     of its time, at the price of what the session emits in that time. So a
//     session without experience decodes plainly.
//   * Cheap drafters come first, all that pay. Of the others, one is asked if
//     its gain, times the probability that the cheap ones predict nothing, is
//     worth its time: the best one. A second one is asked beside it where its
//     measured gain beside the first is worth the further time.
//   * A drafter that is not used is tried for a few rounds, beside those that
//     are, if the upper bound of its gain is worth the lower bound of its time,
//     as long as trials have not lost more than TrialBudget allows. What is not
//     observed is forgotten, so that it is tried again.
// Lives on the executor.
class DrafterPolicy {
 public:
  // The price of time: the tokens that the session emits in a second, and the
  // number of other sessions, which emit as much each. Time on the verifier's
  // cores costs all sessions.
  struct TimePrice {
    double tokens_per_second = 0;
    double others = 0;
    double row = 0;  // tokens that a further row of the pass costs
  };

  // By drafter of this session: `prior` is what other sessions learned. The
  // budget is borrowed.
  DrafterPolicy(std::vector<DrafterValue> prior, TrialBudget* budget);

  // Says whether the drafter may be asked.
  void SetActive(int drafter, bool active) { active_[drafter] = active; }

  // Says how long the text is before the first round that is learned from: the
  // tokens that drafters have to catch up with.
  void SetLength(int64_t tokens) { length_ = tokens; }
  // Begin a round: the price of time in it, and what is tried.
  void SetPrice(TimePrice price);
  void ConsiderTrial();
  bool is_trying() const { return trial_.has_value(); }
  // Returns true if no drafter is asked in it, whatever the cheap ones would
  // predict. cheap_only: no other ones are.
  bool Rests(bool cheap_only = false) const;
  // Asks nobody, or everybody.
  std::vector<DraftCall> NoCalls() const;
  std::vector<DraftCall> AllCalls() const;
  // Returns what is asked first: cheap drafters.
  std::vector<DraftCall> FirstCalls() const;
  // Returns what is asked then. nothing: the probability that what is at hand
  // predicts no token.
  std::vector<DraftCall> FurtherCalls(double nothing);
  struct Spent {
    double tokens = 0;    // emitted
    double handling = 0;  // seconds for merging trees and learning from them
    // Seconds that the round took beyond a round of plain decoding, the wait
    // for drafts and the nodes.
    double other = 0;
  };
  // Ends the round. returns: by drafter; empty if it rested. Returns the
  // seconds that networks took to catch up with the text.
  double Learn(absl::Span<const DrafterReturn> returns, const Spent& spent);

  const std::vector<DrafterValue>& values() const { return values_; }

 private:
  struct Trial {
    int drafter;
    int answers = 0;
    int rounds = 0;
  };
  struct Pick {
    int drafter = -1;  // none
    double worth = 0;  // tokens a round
  };

  bool IsThere(int drafter) const {
    return active_[drafter] && round_ >= back_[drafter];
  }
  bool IsCheap(int drafter) const;
  bool IsDue(int drafter) const;
  bool Lags(int drafter) const;
  double Backlog(int drafter) const;
  double CatchUpSeconds(int drafter) const;
  double Price(int drafter, double seconds) const;
  double Cost(int drafter, double errors) const;
  double CostBeside(int drafter, int first, double errors) const;
  double Worth(int drafter, double nothing, double errors) const;
  double WorthBeside(int drafter, int first, double nothing,
                     double errors) const;
  Pick Best(double nothing) const;
  Pick SecondTo(int first, double nothing) const;
  double HopeOf(int drafter, const Pick& used) const;
  void ChooseTrial();
  DraftCall Call(int drafter) const;
  float LeastReach(int drafter) const;
  void LearnGain(int drafter, const DrafterReturn& r);
  double LearnSeconds(absl::Span<const DrafterReturn> returns,
                      const Spent& spent);
  double LearnCatchUp(int drafter, double seconds);
  void LearnOtherSeconds(absl::Span<const DrafterReturn> returns,
                         double other_seconds);
  void LearnTrial(const DrafterReturn& r, double other_seconds);
  void LearnAbsence(int drafter, const DrafterReturn& r);
  int num_drafters() const { return static_cast<int>(values_.size()); }

  std::vector<DrafterValue> values_;
  TrialBudget& budget_;
  TimePrice price_;
  std::optional<Trial> trial_;
  double nothing_ = 1;  // of the round in progress
  int first_ = -1;      // that the estimates `beside` are about
  int64_t round_ = 0;
  int64_t length_ = 0;  // of the text
  // By drafter.
  std::vector<bool> active_;
  std::vector<bool> kept_up_;    // answered in the last round
  std::vector<int64_t> pauses_;  // rounds since it was last asked
  std::vector<int64_t> seen_;    // length of the text that it has answered to
  std::vector<int> misses_;      // calls in a row without an answer
  std::vector<int64_t> back_;    // the round from which it is called again
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_DRAFTER_POLICY_H_
