#ifndef ESPALIER_COORDINATOR_CLI_FAILOVER_H_
#define ESPALIER_COORDINATOR_CLI_FAILOVER_H_

#include <cstddef>
#include <stop_token>

#include "absl/time/time.h"
#include "coordinator/cli/inference_client.h"

namespace espalier::cli {

// Which of several servers is asked next. All are tried one after another, with
// a pause after each time around, until none has helped for options.patience.
class Failover {
 public:
  Failover(size_t num_servers, const CallOptions& options);

  size_t current() const { return current_; }
  // The current server has failed; `progress`: after it had helped. Blocks for
  // a pause. False: there is no other server to try.
  bool Next(bool progress);

 private:
  void Pause();

  const size_t num_servers_;
  const absl::Duration patience_;
  const std::stop_token interrupt_;
  size_t current_ = 0;
  size_t failed_ = 0;  // in a row
  absl::Duration pause_;
  absl::Time give_up_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_FAILOVER_H_
