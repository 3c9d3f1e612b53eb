#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "common/json/ordered_json.h"
#include "lab/draft_scheme.h"
#include "lab/experiments.h"
#include "lab/toy.h"

namespace espalier::lab {
namespace {

constexpr char kToyUsage[] =
    R"(Usage: espalier lab toy [FLAGS]

How many tokens rules accept on random models ("Layer Verification Accelerates
Speculative Tree Decoding", Table 1): a list of {"shape", "scheme", "rule",
"accepted", "block_efficiency", "std_error", "max_error"}.

accepted: expected draft tokens per verification; block_efficiency counts the
bonus token too. max_error: of the exact distribution of the same rule, scheme and shape
on a smaller model, by enumeration of all drafts. A rule has no row for shapes
that it is not for.)";

using verifier::DraftScheme;
using verifier::Shape;
using verifier::ToyOptions;

struct ToyFlags {
  uint32_t vocab = 15;
  uint32_t depth = 4;
  uint32_t branch = 2;
  float rho = 0.5f;
  float tau = 1;
  uint32_t seeds = 20;
  uint32_t trees = 60;
  std::vector<std::string> shapes = {"multichain", "tapered", "complete"};
  std::vector<std::string> schemes = {"sampled"};
  std::vector<std::string> rules = {"tv-kseq", "lv-kseq", "tv-rrs",
                                    "lv-rrs",  "tv-gr",   "lv-gr",
                                    "trv",     "gbv",     "lvseq-gr"};
  bool merge_duplicates = false;

  void AddTo(FlagSet& flags);
  absl::Status Validate() const;
  ToyOptions Options() const {
    return {.vocab = vocab,
            .depth = depth,
            .branch = branch,
            .rho = rho,
            .tau = tau};
  }
};

void ToyFlags::AddTo(FlagSet& flags) {
  flags.Add({"--vocab", "N", "default 15"}, &vocab);
  flags.Add({"--depth", "N", "default 4"}, &depth);
  flags.Add({"--branch", "N", "default 2"}, &branch);
  flags.Add({"--rho", "R", "likeness of drafter and target; default 0.5"},
            &rho);
  flags.Add({"--tau", "T", "temperature of both; default 1"}, &tau);
  flags.Add({"--seeds", "N", "random models; default 20"}, &seeds);
  flags.Add({"--trees", "N", "drafts for each; default 60"}, &trees);
  flags.Add({"--shapes", "S,S", "default multichain,tapered,complete"},
            &shapes);
  flags.Add({"--schemes", "S,S",
             "of sampled (default), without-replacement, greedy+1, top"},
            &schemes);
  flags.Add({"--rules", "R,R", "default Table 1's and lvseq-gr"}, &rules);
  flags.AddSwitch({"--merge-duplicates", "",
                   "siblings with the same token share what is below"},
                  &merge_duplicates);
}

absl::Status CheckRange(const char* flag, double value, double low,
                        double high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", value, " is not in ", low, " .. ", high));
}

absl::Status ToyFlags::Validate() const {
  RETURN_IF_ERROR(CheckRange("--vocab", vocab, 2, 1000));
  RETURN_IF_ERROR(CheckRange("--depth", depth, 1, 10));
  RETURN_IF_ERROR(CheckRange("--branch", branch, 1, 8));
  RETURN_IF_ERROR(CheckRange("--rho", rho, 0, 1));
  RETURN_IF_ERROR(CheckRange("--tau", tau, 0.01, 100));
  RETURN_IF_ERROR(CheckRange("--seeds", seeds, 1, 10000));
  return CheckRange("--trees", trees, 1, 1000000);
}

absl::StatusOr<Shape> MakeShape(const std::string& name, int64_t branch,
                                int64_t depth) {
  if (name == "multichain") return verifier::MultiChain(branch, depth);
  if (name == "tapered") return verifier::Tapered(branch, depth);
  if (name == "complete") {
    return verifier::Branching(std::vector<int64_t>(depth, branch));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--shapes: unknown shape \"", name,
                   "\"; known: multichain, tapered, complete"));
}

absl::StatusOr<DraftScheme> MakeScheme(const std::string& name,
                                       const Shape& shape) {
  if (name == "sampled") return verifier::AllSampled(shape);
  if (name == "without-replacement") {
    return verifier::WithoutReplacement(shape);
  }
  if (name == "greedy+1") return verifier::GreedyPlusOne(shape);
  if (name == "top") return verifier::AllTop(shape);
  return absl::InvalidArgumentError(
      absl::StrCat("--schemes: unknown scheme \"", name,
                   "\"; known: sampled, without-replacement, greedy+1, top"));
}

struct Row {
  std::string shape, scheme, rule;
};

absl::StatusOr<DraftScheme> SchemeOf(const Row& row, const ToyOptions& options,
                                     bool merge_duplicates) {
  ASSIGN_OR_RETURN(const Shape shape,
                   MakeShape(row.shape, options.branch, options.depth));
  if (shape.size() > 1024) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--depth and --branch: ", shape.size(), " nodes, limit 1024"));
  }
  ASSIGN_OR_RETURN(DraftScheme scheme, MakeScheme(row.scheme, shape));
  scheme.merge_duplicates = merge_duplicates;
  return scheme;
}

// The largest error of a few smaller models whose drafts are few enough to
// enumerate.
absl::StatusOr<double> SmallExactError(const Row& row, ToyOptions options,
                                       bool merge_duplicates) {
  constexpr double kMaxToyDrafts = 5000;
  constexpr std::pair<int64_t, int64_t> kSizes[] = {
      {3, 2}, {2, 2}, {3, 1}, {2, 1}};  // vocab, depth
  for (const auto& [vocab, depth] : kSizes) {
    options.vocab = vocab;
    options.depth = std::min(options.depth, depth);
    ASSIGN_OR_RETURN(const DraftScheme scheme,
                     SchemeOf(row, options, merge_duplicates));
    const auto draws = static_cast<double>(scheme.steps.size());
    if (std::pow(vocab, draws) > kMaxToyDrafts && depth > 1) continue;
    return ExactToyError(options, scheme, row.rule);
  }
  return 0.0;
}

absl::Status AddRow(const ToyFlags& flags, const Row& row, Json& rows) {
  const ToyOptions options = flags.Options();
  ASSIGN_OR_RETURN(const DraftScheme scheme,
                   SchemeOf(row, options, flags.merge_duplicates));
  const auto result =
      verifier::RunToy(options, scheme, row.rule, flags.seeds, flags.trees);
  if (absl::IsFailedPrecondition(result.status())) return absl::OkStatus();
  RETURN_IF_ERROR(result.status());
  ASSIGN_OR_RETURN(const double error,
                   SmallExactError(row, options, flags.merge_duplicates));
  rows.push_back({{"shape", row.shape},
                  {"scheme", row.scheme},
                  {"rule", row.rule},
                  {"accepted", result->accepted},
                  {"block_efficiency", 1 + result->accepted},
                  {"std_error", result->std_error},
                  {"max_error", error}});
  return absl::OkStatus();
}

absl::Status RunToyExperiment(cli::Context& context, cli::Args args) {
  FlagSet flag_set(kToyUsage);
  ToyFlags flags;
  flags.AddTo(flag_set);
  ASSIGN_OR_RETURN(const bool parsed, flag_set.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();
  RETURN_IF_ERROR(flags.Validate());
  Json rows = Json::array();
  for (const std::string& shape : flags.shapes) {
    for (const std::string& scheme : flags.schemes) {
      for (const std::string& rule : flags.rules) {
        RETURN_IF_ERROR(AddRow(flags, {shape, scheme, rule}, rows));
      }
    }
  }
  context.out << ToText(rows) << "\n";
  return absl::OkStatus();
}

}  // namespace

cli::Command ToyExperiment() {
  return {.name = "toy",
          .summary = "what rules accept on random models",
          .run = RunToyExperiment};
}

}  // namespace espalier::lab
