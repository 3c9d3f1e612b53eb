#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "drafter/dflash/ddtree.h"
#include "lab/experiments.h"
#include "lab/tree_json.h"

namespace espalier::lab {
namespace {

using drafter::Candidate;

constexpr char kDdtreeUsage[] =
    R"(Usage: espalier lab ddtree < INPUT

The best draft tree under a node budget, from one list of candidates for each
position after the root.

In:  {"marginals": [[[token, log_prob], ..] for each position], "nodes": N}
     N of 0 .. 1024, root excluded; candidates are sorted, ties as they stand.
Out: {"tokens": [..], "parents": [..], "log_probs": [..],
      "expected_accepted": ..}
     Entry 0 is the root: token -1, parent -1. The rest falls in log_prob, that
     of the path. expected_accepted: the sum of e^log_prob of all but the root.)";

constexpr TokenId kUnknownRoot = -1;

absl::StatusOr<Candidate> ReadCandidate(const JsonValue& field) {
  RETURN_IF_ERROR(field.ExpectListOf(2));
  Candidate candidate;
  ASSIGN_OR_RETURN(candidate.token,
                   field.At(0).Integer(0, std::numeric_limits<TokenId>::max()));
  ASSIGN_OR_RETURN(candidate.log_prob, ReadLogProb(field.At(1)));
  return candidate;
}

absl::StatusOr<std::vector<Candidate>> ReadPosition(const JsonValue& field) {
  ASSIGN_OR_RETURN(const size_t size, field.ListSize());
  std::vector<Candidate> candidates;
  std::set<TokenId> seen;
  for (size_t i = 0; i < size; ++i) {
    ASSIGN_OR_RETURN(candidates.emplace_back(), ReadCandidate(field.At(i)));
    const TokenId token = candidates.back().token;
    if (!seen.insert(token).second) {
      return field.At(i).Error(
          absl::StrCat("token ", token, " is there already"));
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return a.log_prob > b.log_prob;
                   });
  return candidates;
}

absl::StatusOr<Json> RunDdtree(const JsonValue& input) {
  ASSIGN_OR_RETURN(const JsonValue marginals_field, input.Member("marginals"));
  ASSIGN_OR_RETURN(const size_t positions, marginals_field.ListSize());
  std::vector<std::vector<Candidate>> marginals(positions);
  for (size_t d = 0; d < positions; ++d) {
    ASSIGN_OR_RETURN(marginals[d], ReadPosition(marginals_field.At(d)));
  }
  ASSIGN_OR_RETURN(const JsonValue nodes, input.Member("nodes"));
  ASSIGN_OR_RETURN(const int64_t max_nodes,
                   nodes.Integer(0, drafter::kMaxDdtreeNodes));

  const TokenTree tree = drafter::BuildDdtree(
      kUnknownRoot, marginals,
      {.max_nodes = max_nodes, .max_depth = static_cast<int64_t>(positions)});
  double expected_accepted = 0;
  for (int64_t i = 1; i < tree.num_nodes(); ++i) {
    expected_accepted += std::exp(static_cast<double>(tree.log_probs[i]));
  }
  return Json{{"tokens", tree.tokens},
              {"parents", tree.parents},
              {"log_probs", tree.log_probs},
              {"expected_accepted", expected_accepted}};
}

}  // namespace

cli::Command DdtreeExperiment() {
  return AsCommand({.name = "ddtree",
                    .summary = "the best tree of block drafting's marginals",
                    .usage = kDdtreeUsage,
                    .run = RunDdtree});
}

}  // namespace espalier::lab
