#ifndef ESPALIER_VERIFIER_ENGINE_PASS_COMPANY_H_
#define ESPALIER_VERIFIER_ENGINE_PASS_COMPANY_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/speculation/pass_cost.h"

namespace espalier::verifier {

// An estimate of the time between a session's answer and its next request.
// Single-threaded.
class ReturnTime {
 public:
  void Observe(absl::Duration time);
  // Returns the time within which the next request usually comes, from `since`
  // after the answer; infinite while nothing is known. One that is late is
  // expected within half of the time that it has taken so far: most late ones
  // are only a little late, and one pass too early costs the others a pass.
  absl::Duration Remaining(absl::Duration since) const;

 private:
  absl::Duration mean_ = absl::InfiniteDuration();
  absl::Duration deviation_;
};

// A session that is expected to ask for a pass.
struct AwaitedCompany {
  absl::Duration due;  // from now, above 0
  int64_t rows = 0;    // expected rows of its request
};

// How long a pass over `rows` rows should wait: until the requests have come
// for which sharing the pass saves more time than the wait costs. Without this,
// two sessions that just miss each other would alternate forever, and each pass
// would read the model's weights for one session's rows only. Zero: run at
// once. max_rows: of the pass.
absl::Duration WaitForCompany(int64_t rows, std::vector<AwaitedCompany> awaited,
                              const PassCosts& costs, int64_t max_rows);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_PASS_COMPANY_H_
