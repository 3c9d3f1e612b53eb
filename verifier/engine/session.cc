#include "verifier/engine/session.h"

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "verifier/engine/verify_checks.h"

namespace espalier::verifier {

bool Session::Repeat(Job& repeated) {
  const bool same = AskTheSame(asked, repeated.request);
  const uint64_t round = repeated.request.update.round;
  if (last_verify_result && last_verify_result->round == round) {
    if (same) {
      std::move(repeated.done)(*last_verify_result);
    } else {
      std::move(repeated.done)(absl::InvalidArgumentError(absl::StrCat(
          "round ", round, " was answered for another text or tree")));
    }
    return true;
  }
  if (job == nullptr || !same || job->request.update.round != round) {
    return false;
  }
  std::swap(job->done, repeated.done);
  job->deadline = repeated.deadline;
  std::move(repeated.done)(
      absl::CancelledError("the sequence was asked for again"));
  return true;
}

void Session::ObserveReturn(absl::Time asked_at) {
  if (answered == absl::InfinitePast()) return;
  return_time.Observe(asked_at - answered);
  answered = absl::InfinitePast();
}

int64_t Session::ReplaceTokens(const SequenceUpdate& update) {
  const std::vector<TokenId>& added = update.new_tokens;
  const auto replaced = tokens.begin() + update.base_length;
  const int64_t same =
      std::mismatch(replaced, tokens.end(), added.begin(), added.end()).first -
      tokens.begin();
  tokens.erase(replaced, tokens.end());
  tokens.insert(tokens.end(), added.begin(), added.end());
  return std::min(same, static_cast<int64_t>(tokens.size()) - 1);
}

void Session::Answer(absl::StatusOr<VerifyResult> verify_result) {
  const std::unique_ptr<Job> answered_job = std::move(job);
  if (answered_job == nullptr) return;
  std::move(answered_job->done)(std::move(verify_result));
}

// Whether the distributions are kept must not depend on how many draws gave the
// same token; so the number of samples decides.
void CutTree(TokenTree& tree, int64_t size) {
  if (std::ssize(tree.samples) >= size) tree.DropDistributions();
  if (tree.num_nodes() <= size) return;
  tree.tokens.resize(size);
  tree.parents.resize(size);
  tree.log_probs.resize(size);
  if (!tree.provenance.empty()) tree.provenance.resize(size);
}

}  // namespace espalier::verifier
