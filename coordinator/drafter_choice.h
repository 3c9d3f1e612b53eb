#ifndef ESPALIER_COORDINATOR_DRAFTER_CHOICE_H_
#define ESPALIER_COORDINATOR_DRAFTER_CHOICE_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "coordinator/draft_call.h"
#include "coordinator/speculation_record.h"

namespace espalier::coordinator {

// Which drafters a session asks: those whose tokens are worth the time that
// they take, at the price of what the session emits in that time. One change at
// a time, of one drafter or of one for another. The others are probed after
// some rounds in which nobody foretold anything, without waiting for them, to
// see whether they would; less and less often while that changes nothing, as
// they then have all the text since to catch up with. Whoever answers in next
// to no time is asked first; where that foretells enough, as in copied text,
// nobody else is. Lives on the executor.
class DrafterChoice {
 public:
  // `prior`: what other sessions found, by drafter of this one.
  explicit DrafterChoice(std::vector<DraftWorth> prior);

  // Of the round that begins.
  bool asks(int drafter) const { return worth_[drafter].asked; }
  // Whether its answer costs next to nothing, as far as is known.
  bool IsQuick(int drafter, double tokens_per_second) const;
  // Whether what it usually brings is worth its time where the others foretell
  // nothing, if they do so with this chance.
  bool IsWorthwhile(int drafter, double nothing_else,
                    double tokens_per_second) const;
  bool probes() const {
    return unforetold_ >= (only_quick_ ? probe_after_ : kProbeLate);
  }
  // How long it may stand still for this drafter alone.
  absl::Duration Patience(int drafter, double tokens_per_second) const;

  // Ends the round. returns: by drafter.
  void Learn(absl::Span<const DrafterReturn> returns, double tokens_per_second);

  const std::vector<DraftWorth>& worth() const { return worth_; }

 private:
  // Rounds without a token: where only quick ones are asked, twice as many
  // after each probe in vain, and else.
  static constexpr int64_t kProbeSoon = 8;
  static constexpr int64_t kProbeLate = 32;

  void LearnGains(absl::Span<const DrafterReturn> returns);
  void LearnSeconds(absl::Span<const DrafterReturn> returns);
  void Reconsider(double tokens_per_second);
  // How much better it is alone than the best of the others that are asked,
  // leaving one out.
  double Lead(int drafter, int without) const;
  // What a round would gain if i changed over, or was changed for j (where they
  // differ), not counting the time to draft.
  double TokensWithChanged(int i, int j) const;
  void Change(const std::vector<bool>& asked);
  // What their drafting takes.
  double Seconds(const std::vector<bool>& asked) const;

  int num_drafters() const { return static_cast<int>(worth_.size()); }

  std::vector<DraftWorth> worth_;
  // As they last came back.
  std::vector<uint64_t> sites_;
  std::vector<bool> active_;
  std::vector<bool> kept_up_;  // answered in the last round
  bool only_quick_ = false;    // are asked
  int64_t round_ = 0;
  int64_t unforetold_ = 0;  // rounds without a token, since the last probe
  int64_t probe_after_ = kProbeSoon;
  int64_t last_change_ = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_DRAFTER_CHOICE_H_
