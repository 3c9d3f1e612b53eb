#ifndef ESPALIER_COORDINATOR_CONTROL_DRAFTER_POLICY_H_
#define ESPALIER_COORDINATOR_CONTROL_DRAFTER_POLICY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/control/draft_call.h"
#include "coordinator/control/session_drafter.h"
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
  // By drafter of this session: `prior` is what other sessions learned. The
  // budget is borrowed.
  DrafterPolicy(const std::vector<DrafterValue>& prior, TrialBudget* budget);

  // Says whether the drafter may be asked.
  void SetActive(int drafter, bool active) {
    drafters_[drafter].SetActive(active);
  }

  // Begin a round: the price of time in it and the length of the text, and what
  // is tried.
  void BeginRound(const TimePrice& price, int64_t length);
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

  const DrafterValue& value(int drafter) const {
    return drafters_[drafter].value();
  }

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

  bool IsDue(const SessionDrafter& drafter) const;
  Pick Best(double nothing) const;
  Pick SecondTo(int first, double nothing) const;
  double HopeOf(int drafter, const Pick& used) const;
  void ChooseTrial();
  double LearnDrafters(absl::Span<const DrafterReturn> returns,
                       const Spent& spent);
  void LearnOtherSeconds(absl::Span<const DrafterReturn> returns,
                         double other_seconds);
  void LearnTrial(const DrafterReturn& r, double other_seconds);
  int num_drafters() const { return static_cast<int>(drafters_.size()); }

  std::vector<SessionDrafter> drafters_;
  TrialBudget& budget_;
  TimePrice price_;
  std::optional<Trial> trial_;
  double nothing_ = 1;  // of the round in progress
  int first_ = -1;      // that the estimates `beside` are about
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_DRAFTER_POLICY_H_
