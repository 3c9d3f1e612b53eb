#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/registry.h"
#include "common/base/status_macros.h"
#include "lab/draft_scheme.h"
#include "lab/exact_distribution.h"
#include "lab/experiments.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::lab {
namespace {

constexpr char kLawUsage[] =
    R"(Usage: espalier lab law < INPUT

The exact distribution of what a rule emits, by enumeration of every draft and of every
random choice of the rule that runs in the service.

In:  {"vocab": 3, "depth": 2,
      "target": {"": [p0, p1, p2], "0": [..], "0,1": [..], ..},
      "drafters": [{"": [..], "0": [..], ..}, ..],
      "tree": [{"parent": 0, "drafter": 0, "kind": "sampled"},
               {"parent": 0, "drafter": 0, "kind": "top", "rank": 0}, ..],
      "rule": "lvseq-gr", "merge_duplicates": true}
     Distributions by context. Entry i of the tree is node i + 1, and 0 is the root. Its
     token: an independent draw from the drafter's distribution after its parent
     ("sampled"); a draw without replacement, of all that are marked so
     ("distinct"); the rank-th likeliest token there, from 0, ties to the lower
     id ("top"); a draw from that distribution without its `rank` likeliest tokens
     ("rest"). merge_duplicates (default true): siblings with one token are one.
Out: {"max_error": .., "expected_accepted": .., "law": {"0,1,2": p, ..}}
     Over all sequences of depth + 1 tokens; what the rule does not reach is
     continued from the target. max_error: against the target's own distribution.)";

using verifier::DraftScheme;
using verifier::DraftStep;
using verifier::ExactDistribution;
using verifier::SequenceModel;
using verifier::TableModel;
using verifier::Tokens;
using verifier::VerificationRule;

constexpr int64_t kMaxVocab = 64;
constexpr int64_t kMaxDepth = 16;
constexpr double kMaxSequences = 1 << 20;
constexpr double kMaxDrafts = 1 << 20;
constexpr double kSumTolerance = 1e-6;

// ---- Models
// --------------------------------------------------------------------

std::string ContextName(absl::Span<const TokenId> context) {
  return absl::StrJoin(context, ",");
}

// A model from the input. Missing contexts are uniform; the first missing one
// that was asked for is remembered.
class GivenModel final : public SequenceModel {
 public:
  GivenModel(int64_t vocab, int64_t depth)
      : table_(vocab, depth), is_given_(table_.num_contexts(), false) {}

  absl::Status Give(const JsonValue& distribution, const Tokens& context) {
    RETURN_IF_ERROR(distribution.ExpectListOf(vocab()));
    std::vector<double> weights(vocab());
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      ASSIGN_OR_RETURN(weights[i], distribution.At(i).Number(0, 1));
      sum += weights[i];
    }
    if (std::abs(sum - 1) > kSumTolerance) {
      return distribution.Error(absl::StrCat("sums to ", sum, ", not to 1"));
    }
    table_.SetDistribution(context, weights);
    is_given_[table_.ContextIndex(context)] = true;
    return absl::OkStatus();
  }

  int64_t vocab() const override { return table_.vocab(); }
  absl::Span<const double> Distribution(
      absl::Span<const TokenId> context) const override {
    if (missing_.empty() && !is_given_[table_.ContextIndex(context)]) {
      missing_ = absl::StrCat("needs the distribution after \"",
                              ContextName(context), "\"");
    }
    return table_.Distribution(context);
  }

  // The first missing context; empty: none.
  const std::string& missing() const { return missing_; }

 private:
  TableModel table_;
  std::vector<bool> is_given_;  // [contexts]
  mutable std::string missing_;
};

absl::StatusOr<Tokens> ReadContext(const JsonValue& field,
                                   const std::string& name, int64_t vocab,
                                   int64_t depth) {
  Tokens context;
  if (name.empty()) return context;
  for (const auto& part : absl::StrSplit(name, ',')) {
    TokenId token = 0;
    if (!absl::SimpleAtoi(part, &token) || token < 0 || token >= vocab) {
      return field.Error(absl::StrCat("\"", name, "\" is no context"));
    }
    context.push_back(token);
  }
  if (static_cast<int64_t>(context.size()) > depth) {
    return field.Error(absl::StrCat("\"", name, "\" is longer than depth"));
  }
  return context;
}

absl::StatusOr<GivenModel> ReadModel(const JsonValue& field, int64_t vocab,
                                     int64_t depth) {
  GivenModel model(vocab, depth);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, field.MemberNames());
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const Tokens context,
                     ReadContext(field, name, vocab, depth));
    ASSIGN_OR_RETURN(const JsonValue distribution, field.Member(name));
    RETURN_IF_ERROR(model.Give(distribution, context));
  }
  return model;
}

// ---- The tree
// --------------------------------------------------------------------

struct Limits {
  int64_t vocab = 0;
  int64_t depth = 0;
  int64_t drafters = 0;
};

absl::StatusOr<DraftStep> ReadStep(const JsonValue& field, int64_t earlier,
                                   const Limits& limits) {
  DraftStep step;
  ASSIGN_OR_RETURN(const JsonValue parent, field.Member("parent"));
  ASSIGN_OR_RETURN(const int64_t parent_index, parent.Integer(0, earlier));
  step.parent = static_cast<int32_t>(parent_index);
  ASSIGN_OR_RETURN(const JsonValue drafter, field.Member("drafter"));
  ASSIGN_OR_RETURN(const int64_t drafter_index,
                   drafter.Integer(0, limits.drafters - 1));
  step.drafter = static_cast<int32_t>(drafter_index);
  ASSIGN_OR_RETURN(const JsonValue kind_field, field.Member("kind"));
  ASSIGN_OR_RETURN(const std::string kind, kind_field.Text());
  if (kind == "sampled") return step;
  if (kind == "distinct") {
    step.kind = DraftStep::Kind::kDistinct;
    return step;
  }
  if (kind != "top" && kind != "rest") {
    return kind_field.Error("must be sampled, distinct, top or rest");
  }
  step.kind = kind == "top" ? DraftStep::Kind::kTop : DraftStep::Kind::kRest;
  ASSIGN_OR_RETURN(const JsonValue rank, field.Member("rank"));
  ASSIGN_OR_RETURN(step.rank, rank.Integer(0, limits.vocab - 1));
  return step;
}

absl::StatusOr<DraftScheme> ReadScheme(const JsonValue& input,
                                       const Limits& limits) {
  DraftScheme scheme;
  ASSIGN_OR_RETURN(const JsonValue field, input.Member("tree"));
  ASSIGN_OR_RETURN(const size_t size, field.ListSize());
  std::vector<int64_t> depths = {0};
  double drafts = 1;
  for (size_t i = 0; i < size; ++i) {
    ASSIGN_OR_RETURN(const DraftStep step, ReadStep(field.At(i), i, limits));
    depths.push_back(depths[step.parent] + 1);
    if (depths.back() > limits.depth) {
      return field.At(i).Error("is deeper than depth");
    }
    if (step.kind != DraftStep::Kind::kTop) {
      drafts *= static_cast<double>(limits.vocab);
    }
    scheme.steps.push_back(step);
  }
  if (drafts > kMaxDrafts) {
    return field.Error(
        absl::StrCat("has ", drafts, " drafts, limit ", kMaxDrafts));
  }
  if (input.Has("merge_duplicates")) {
    ASSIGN_OR_RETURN(const JsonValue merge, input.Member("merge_duplicates"));
    ASSIGN_OR_RETURN(scheme.merge_duplicates, merge.Bool());
  }
  return scheme;
}

absl::StatusOr<Limits> ReadLimits(const JsonValue& input) {
  Limits limits;
  ASSIGN_OR_RETURN(const JsonValue vocab, input.Member("vocab"));
  ASSIGN_OR_RETURN(limits.vocab, vocab.Integer(1, kMaxVocab));
  ASSIGN_OR_RETURN(const JsonValue depth, input.Member("depth"));
  ASSIGN_OR_RETURN(limits.depth, depth.Integer(0, kMaxDepth));
  ASSIGN_OR_RETURN(const JsonValue drafters, input.Member("drafters"));
  ASSIGN_OR_RETURN(const size_t size, drafters.ListSize());
  limits.drafters = static_cast<int64_t>(size);
  if (std::pow(limits.vocab, limits.depth + 1) > kMaxSequences) {
    return depth.Error(
        absl::StrCat("vocab^(depth + 1) is above ", kMaxSequences));
  }
  return limits;
}

absl::StatusOr<std::unique_ptr<VerificationRule>> ReadRule(
    const JsonValue& input) {
  ASSIGN_OR_RETURN(const JsonValue field, input.Member("rule"));
  ASSIGN_OR_RETURN(const std::string name, field.Text());
  if (name == "auto") return verifier::NewWalkRule();
  Registry<VerificationRule> registry("rule");
  verifier::RegisterVerificationRules(registry);
  auto rule = registry.Create(name);
  if (!rule.ok()) return field.Error(std::string(rule.status().message()));
  return rule;
}

// ---- Result
// ------------------------------------------------------------------------

// By sequence, in the order of SequenceIndex.
Json DistributionJson(absl::Span<const double> joint, int64_t vocab,
                      int64_t length) {
  Json distribution = Json::object();
  Tokens sequence(length, 0);
  for (double probability : joint) {
    distribution[ContextName(sequence)] = probability;
    for (size_t i = sequence.size(); i > 0; --i) {
      if (++sequence[i - 1] < vocab) break;
      sequence[i - 1] = 0;
    }
  }
  return distribution;
}

absl::StatusOr<Json> RunLaw(const JsonValue& input) {
  ASSIGN_OR_RETURN(const Limits limits, ReadLimits(input));
  ASSIGN_OR_RETURN(const JsonValue target_field, input.Member("target"));
  ASSIGN_OR_RETURN(GivenModel target,
                   ReadModel(target_field, limits.vocab, limits.depth));
  ASSIGN_OR_RETURN(const JsonValue drafters_field, input.Member("drafters"));
  std::vector<GivenModel> given;
  for (int64_t i = 0; i < limits.drafters; ++i) {
    ASSIGN_OR_RETURN(GivenModel model, ReadModel(drafters_field.At(i),
                                                 limits.vocab, limits.depth));
    given.push_back(std::move(model));
  }
  ASSIGN_OR_RETURN(const DraftScheme scheme, ReadScheme(input, limits));
  ASSIGN_OR_RETURN(const auto rule, ReadRule(input));

  const int64_t length = limits.depth + 1;
  const std::vector<double> wanted = JointDistribution(target, length);
  if (!target.missing().empty()) return target_field.Error(target.missing());

  std::vector<const SequenceModel*> drafters;
  for (const GivenModel& drafter : given) drafters.push_back(&drafter);
  const auto draft = [&](verifier::ChoiceTree& choices) {
    return DraftTree(scheme, drafters,
                     [&](absl::Span<const double> distribution) {
                       return choices.Choose(distribution);
                     });
  };
  const ExactDistribution distribution =
      EnumerateDistribution(target, length, RuleRound(*rule, target, draft));
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].missing().empty()) continue;
    return drafters_field.At(i).Error(given[i].missing());
  }
  return Json{
      {"max_error", verifier::MaxError(distribution.joint, wanted)},
      {"expected_accepted", distribution.expected_emitted - 1},
      {"law", DistributionJson(distribution.joint, limits.vocab, length)}};
}

}  // namespace

cli::Command LawExperiment() {
  return AsCommand({.name = "law",
                    .summary = "the exact distribution of what a rule emits",
                    .usage = kLawUsage,
                    .run = RunLaw});
}

}  // namespace espalier::lab
