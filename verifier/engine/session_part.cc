#include "verifier/engine/session_part.h"

#include <algorithm>
#include <iterator>

#include "absl/types/span.h"

namespace espalier::verifier {
namespace {

// What a prompt's row costs with its logits, in rows without them. Smaller
// parts of such prompts keep the passes of all sessions short.
constexpr int64_t kLogitRowCost = 4;

// Adds the ranks that the request wants. There are none where the model leaves
// out logits (a grammar), and those of the tree alone where it has no others (a
// rule that gathers distributions).
void WantRanks(const LanguageModel& model, Session& session,
               TargetPass::Part& part) {
  const VerifyRequest& request = session.job->request;
  if (request.ranks.top == 0 || request.adjustments.grammar.any()) return;
  const int32_t top = static_cast<int32_t>(
      std::min<int64_t>(request.ranks.top, model.info().config.vocab_size));
  if (session.ranks.top != top) session.ranks = {.top = top};
  part.ranks = &session.ranks;
  if (session.job->rule->second->needs().logits == LogitNeed::kGathered) return;
  const int64_t root = std::ssize(session.tokens) - 1;
  const int64_t end = model.Length(session.cache) + part.prompt_rows();
  const int64_t first =
      std::max(session.ranked_end, root - request.ranks.prompt_rows);
  part.ranked_prompt_rows =
      std::clamp<int64_t>(end - first, 0, part.prompt_rows());
}

}  // namespace

PassWork RemainingWork(const Session& session, const LanguageModel& model) {
  const int64_t before_root = std::ssize(session.tokens) - 1;
  return {.prompt_rows = before_root - model.Length(session.cache),
          .tree_rows = session.job->request.tree.num_nodes(),
          .prompt_row_cost = session.WantsPromptLogprobs() ? kLogitRowCost : 1};
}

TargetPass::Part PartOf(Session& session, const PassShare& share,
                        const LanguageModel& model, bool collects_features) {
  const VerifyRequest& request = session.job->request;
  const int64_t cached = model.Length(session.cache);
  TargetPass::Part part = {.cache = session.cache,
                           .prompt = absl::MakeConstSpan(session.tokens)
                                         .subspan(cached, share.prompt_rows),
                           .committed = session.tokens,
                           .logprobs = request.logprobs};
  if (request.logprobs.prompt) part.prompt_logprobs = &session.prompt_logprobs;
  if (share.with_tree) {
    part.tree = &request.tree;
    part.sampling = &request.update.sampling;
    part.rule = session.job->rule->second.get();
    part.adjustments = &request.adjustments;
    if (session.job->masked) part.masks = &session.job->masked->masks;
    part.compared = session.job->compared;
  }
  const int64_t end = cached + part.rows();
  if (collects_features && end > session.features.end_position()) {
    part.features = &session.features;
  }
  WantRanks(model, session, part);
  part.stored = absl::MakeSpan(session.stored);
  if (part.features != nullptr || !part.stored.empty()) {
    part.taps = session.taps;
  }
  return part;
}

}  // namespace espalier::verifier
