#ifndef ESPALIER_COORDINATOR_CONTROL_SESSION_DRAFTER_H_
#define ESPALIER_COORDINATOR_CONTROL_SESSION_DRAFTER_H_

#include <cstdint>
#include <optional>

#include "coordinator/control/draft_call.h"
#include "coordinator/control/speculation_record.h"

namespace espalier::coordinator {

// The price of time: the tokens that the session emits in a second, and the
// number of other sessions, which emit as much each. Time on the verifier's
// cores costs all sessions.
struct TimePrice {
  double tokens_per_second = 0;
  double others = 0;
  double row = 0;  // tokens that a further row of the pass costs
};

// One drafter of a session: what it was measured to gain and to take, and what
// it is worth at the price of this round. Costs and worths are tokens a round,
// at so many standard errors from the mean. Lives on the executor.
class SessionDrafter {
 public:
  static constexpr double kTry = 1;  // standard errors that hope may add

  // prior: what other sessions learned.
  explicit SessionDrafter(const DrafterValue& prior) : value_(prior) {}

  const DrafterValue& value() const { return value_; }
  void SetActive(bool active) { active_ = active; }
  // Begins a round. length: of the text.
  void BeginRound(const TimePrice& price, int64_t length) {
    price_ = price;
    length_ = length;
  }

  // Returns true if it may be asked.
  bool is_there() const { return active_ && absence_ == 0; }
  // Returns true if its time costs next to nothing.
  bool is_cheap() const;
  // Returns the rounds since it was last asked.
  int64_t pause() const { return pause_; }
  // Returns what reading the tokens that it has not seen costs.
  double CatchUpCost() const { return Price(CatchUpSeconds()); }
  // Returns what its time costs, and what its rounds take beside that.
  double Cost(double errors) const;
  // nothing: the probability that what else is asked predicts no token.
  double Worth(double nothing, double errors) const;
  double WorthBeside(const SessionDrafter& first, double nothing,
                     double errors) const;
  DraftCall Call() const;

  // End a round: it was not asked; it was. Learn returns the seconds that it
  // took to catch up with the text.
  void LearnPause();
  struct Observed {
    bool beside = false;            // another one that is better
    std::optional<double> seconds;  // of the wait; see SharesOfWait
    double handling = 0;            // seconds for its tree, if it is cheap
  };
  double Learn(const DrafterReturn& r, const Observed& observed);
  // Learns what its round took beyond waits and rows.
  void LearnOtherSeconds(double seconds) {
    value_.other_seconds.Observe(seconds);
  }
  // Another drafter is now the best one.
  void ForgetBeside() { value_.beside = DrafterValue().beside; }

 private:
  // After so many rounds catching up takes longer than a draft.
  static constexpr int64_t kLongPause = 8;

  bool lags() const { return pause_ >= kLongPause && !is_cheap(); }
  double backlog() const { return static_cast<double>(length_ - seen_); }
  double CatchUpSeconds() const;
  double Price(double seconds) const;
  double CostBeside(const SessionDrafter& first, double errors) const;
  float LeastReach() const;
  void LearnGain(const DrafterReturn& r, bool beside);
  void LearnAbsence(const DrafterReturn& r);
  double LearnCatchUp(double seconds);

  DrafterValue value_;
  TimePrice price_;
  int64_t length_ = 0;  // of the text
  int64_t seen_ = 0;    // of the text that it has answered to
  int64_t round_ = 0;   // rounds that have ended
  int64_t pause_ = kLongPause;
  int64_t absence_ = 0;  // rounds until it is asked again
  int misses_ = 0;       // calls in a row without an answer
  bool active_ = true;
  bool kept_up_ = false;  // answered in the last round
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_SESSION_DRAFTER_H_
