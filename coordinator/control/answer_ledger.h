#ifndef ESPALIER_COORDINATOR_CONTROL_ANSWER_LEDGER_H_
#define ESPALIER_COORDINATOR_CONTROL_ANSWER_LEDGER_H_

namespace espalier::coordinator {

// Counts what speculation has won or lost of an answer, compared with plain
// decoding, round by round. An answer that has lost more than 2 tokens and 1 %
// of its tokens asks no network until it has caught up. What networks took to
// catch up with the text is owed longer: it pays back over some rounds. Lives
// on the executor.
class AnswerLedger {
 public:
  // The answer is `tokens` longer.
  void Emitted(double tokens) { emitted_ += tokens; }
  // A round with speculation emitted `tokens` in `seconds`; a round of plain
  // decoding takes plain_seconds. Returns the seconds won, below 0 those lost.
  double Enter(double tokens, double seconds, double plain_seconds) {
    const double won = tokens * plain_seconds - seconds;
    advanced_ *= kOwed;
    seconds_ += won;
    tokens_ += won / plain_seconds;
    return won;
  }

  // The last round was so many tokens longer because networks caught up.
  void Advance(double tokens) { advanced_ += tokens; }

  // Seconds won so far, below 0 those lost.
  double seconds() const { return seconds_; }
  bool is_behind() const {
    return tokens_ < -(kTokens + kShare * emitted_ + advanced_);
  }

 private:
  static constexpr double kTokens = 2;
  static constexpr double kShare = 0.01;
  static constexpr double kOwed = 31.0 / 32;  // after a round

  double seconds_ = 0;
  double tokens_ = 0;
  double emitted_ = 0;
  double advanced_ = 0;  // of the tokens lost, not due yet
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_ANSWER_LEDGER_H_
