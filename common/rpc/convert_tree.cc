#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/rpc/convert.h"
#include "common/rpc/convert_fields.h"

namespace espalier {
namespace {

// More than any service allows.
constexpr int64_t kMaxTreeNodes = 4096;

absl::Status ReadSamples(const v1::TokenTree& message, TokenTree& tree) {
  const int n = message.sample_node_size();
  if (message.sample_distribution_size() != n) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tree: columns of unequal length: ", n, " sample_nodes, ",
        message.sample_distribution_size(), " sample_distributions"));
  }
  ASSIGN_OR_RETURN(const std::vector<int32_t> nodes,
                   Int32Column("tree.sample_node", message.sample_node()));
  for (int i = 0; i < n; ++i) {
    tree.samples.push_back(
        {.node = nodes[i], .distribution = message.sample_distribution(i)});
  }
  return absl::OkStatus();
}

// Checks the lengths of the columns before anything is copied.
absl::Status CheckTreeSize(const v1::TokenTree& message) {
  const auto check = [](absl::string_view field, int64_t size, int64_t limit) {
    return CheckAtMost(absl::StrCat("tree: entries of ", field),
                       static_cast<uint64_t>(size),
                       static_cast<uint64_t>(limit));
  };
  RETURN_IF_ERROR(check("token", message.token_size(), kMaxTreeNodes));
  RETURN_IF_ERROR(check("sample_node", message.sample_node_size(),
                        TokenTree::kMaxSamplesPerNode * message.token_size()));
  RETURN_IF_ERROR(check("distribution_token", message.distribution_token_size(),
                        kMaxTreeDistributionTokens));
  RETURN_IF_ERROR(check("distribution_size", message.distribution_size_size(),
                        TokenTree::kMaxSamplesPerNode * message.token_size()));
  for (uint32_t size : message.distribution_size()) {
    RETURN_IF_ERROR(
        CheckAtMost("tree: distribution_size", size, kMaxDistributionTokens));
  }
  return absl::OkStatus();
}

absl::Status ReadDistributions(const v1::TokenTree& message, TokenTree& tree) {
  ASSIGN_OR_RETURN(
      const std::vector<TokenId> tokens,
      Int32Column("tree.distribution_token", message.distribution_token()));
  const absl::Span<const uint32_t> weights(message.distribution_weight().data(),
                                           message.distribution_weight_size());
  uint64_t sizes = 0;
  for (uint32_t size : message.distribution_size()) sizes += size;
  if (sizes != tokens.size() || sizes != weights.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tree: distributions of ", sizes, " tokens in all, but ", tokens.size(),
        " distribution_tokens, ", weights.size(), " distribution_weights"));
  }
  std::vector<SampleDependence> draws(message.distribution_size_size(),
                                      SampleDependence::kIndependent);
  for (uint32_t distribution : message.distribution_without_replacement()) {
    if (distribution >= draws.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tree.distribution_without_replacement: distribution ",
                       distribution, " of ", draws.size()));
    }
    draws[distribution] = SampleDependence::kWithoutReplacement;
  }
  size_t begin = 0;
  for (size_t i = 0; i < draws.size(); ++i) {
    const size_t size = message.distribution_size(static_cast<int>(i));
    tree.distributions.Add(absl::MakeConstSpan(tokens).subspan(begin, size),
                           weights.subspan(begin, size), draws[i]);
    begin += size;
  }
  return absl::OkStatus();
}

}  // namespace

v1::TokenTree ToProto(const TokenTree& tree) {
  v1::TokenTree message;
  message.mutable_token()->Add(tree.tokens.begin(), tree.tokens.end());
  message.mutable_parent()->Add(tree.parents.begin(), tree.parents.end());
  message.mutable_log_prob()->Add(tree.log_probs.begin(), tree.log_probs.end());
  message.mutable_provenance()->Add(tree.provenance.begin(),
                                    tree.provenance.end());
  for (const DraftSample& sample : tree.samples) {
    message.add_sample_node(sample.node);
    message.add_sample_distribution(sample.distribution);
  }
  for (int32_t i = 0; i < tree.distributions.size(); ++i) {
    const DraftDistribution distribution = tree.distributions[i];
    message.add_distribution_size(
        static_cast<uint32_t>(distribution.tokens.size()));
    message.mutable_distribution_token()->Add(distribution.tokens.begin(),
                                              distribution.tokens.end());
    message.mutable_distribution_weight()->Add(distribution.weights.begin(),
                                               distribution.weights.end());
    if (distribution.draws == SampleDependence::kWithoutReplacement) {
      message.add_distribution_without_replacement(i);
    }
  }
  return message;
}

absl::StatusOr<TokenTree> FromProto(const v1::TokenTree& message) {
  RETURN_IF_ERROR(CheckTreeSize(message));
  const int n = message.token_size();
  if (message.parent_size() != n || message.log_prob_size() != n ||
      (message.provenance_size() != n && message.provenance_size() != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tree: columns of unequal length: ", n, " tokens, ",
        message.parent_size(), " parents, ", message.log_prob_size(),
        " log_probs, ", message.provenance_size(), " provenances"));
  }
  TokenTree tree;
  ASSIGN_OR_RETURN(tree.tokens, Int32Column("tree.token", message.token()));
  tree.parents.assign(message.parent().begin(), message.parent().end());
  tree.log_probs.assign(message.log_prob().begin(), message.log_prob().end());
  tree.provenance.assign(message.provenance().begin(),
                         message.provenance().end());
  RETURN_IF_ERROR(ReadSamples(message, tree));
  RETURN_IF_ERROR(ReadDistributions(message, tree));
  return tree;
}

}  // namespace espalier
