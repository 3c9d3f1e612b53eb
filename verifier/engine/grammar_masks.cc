#include "verifier/engine/grammar_masks.h"

#include <numeric>
#include <utility>

#include "common/base/status_macros.h"
#include "common/speculation/request_errors.h"

namespace espalier::verifier {
namespace {

// Returns the allowed nodes of `tree` that a mask is there for, in order.
std::vector<int32_t> AllowedNodes(const TokenTree& tree,
                                  const grammar::TokenMasks& masks) {
  std::vector<int32_t> nodes = {0};
  std::vector<bool> allowed(tree.num_nodes());
  allowed[0] = true;
  for (int32_t node = 1; node < masks.num_rows(); ++node) {
    const int32_t parent = tree.parents[node];
    allowed[node] = allowed[parent] && masks.Allows(parent, tree.tokens[node]);
    if (allowed[node]) nodes.push_back(node);
  }
  return nodes;
}

// Returns the nodes `nodes` of `tree`, which are a tree, without distributions.
TokenTree Selected(const TokenTree& tree, absl::Span<const int32_t> nodes) {
  TokenTree selected = TokenTree::RootOnly(tree.tokens[0]);
  std::vector<int32_t> places(tree.num_nodes());
  for (int32_t node : nodes.subspan(1)) {
    places[node] = selected.Add(places[tree.parents[node]], tree.tokens[node],
                                tree.log_probs[node]);
  }
  if (tree.provenance.empty()) return selected;
  selected.provenance.clear();
  for (int32_t node : nodes) {
    selected.provenance.push_back(tree.provenance[node]);
  }
  return selected;
}

absl::StatusOr<grammar::TokenMasks> Masks(const TreeMasker::Request& request,
                                          grammar::Matcher& matcher) {
  RETURN_IF_ERROR(matcher.Follow(request.output));
  return matcher.MasksOf(request.tree, request.prunes
                                           ? GrammarMasks::kTreeLimit
                                           : absl::InfiniteDuration());
}

grammar::TokenMasks SelectedRows(const grammar::TokenMasks& masks,
                                 absl::Span<const int32_t> rows) {
  grammar::TokenMasks selected(std::ssize(rows), masks.vocab_size());
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const auto row = masks.Row(rows[i]);
    std::copy(row.begin(), row.end(), selected.MutableRow(i).begin());
  }
  return selected;
}

}  // namespace

GrammarMasks::GrammarMasks(std::unique_ptr<grammar::GrammarCompiler> compiler,
                           std::unique_ptr<Executor> executor)
    : executor_(std::move(executor)), compiler_(std::move(compiler)) {}

GrammarMasks::~GrammarMasks() { Stop(); }

void GrammarMasks::Stop() {
  {
    MutexLock lock(&mutex_);
    if (std::exchange(stopped_, true)) return;
  }
  stops_ = true;
  compiler_.reset();  // its answers are posted
  executor_.reset();
}

void GrammarMasks::Mask(Request request, Done<MaskedTree> done) {
  MutexLock lock(&mutex_);
  if (stopped_) {
    std::move(done)(absl::UnavailableError("stopping"));
    return;
  }
  const GrammarSpec grammar = request.grammar;
  compiler_->Get(
      grammar, [this, request = std::move(request), done = std::move(done)](
                   const grammar::GrammarCompiler::Compiled& compiled) mutable {
        executor_->Post([this, compiled, request = std::move(request),
                         done = std::move(done)]() mutable {
          if (compiled.ok()) {
            std::move(done)(Masked(std::move(request), **compiled));
          } else {
            std::move(done)(compiled.status());
          }
        });
      });
}

void GrammarMasks::Forget(SequenceId sequence) {
  MutexLock lock(&mutex_);
  if (stopped_) return;
  executor_->Post([this, sequence] { places_.erase(sequence); });
}

absl::StatusOr<MaskedTree> GrammarMasks::Masked(
    Request request, const grammar::Grammar& grammar) {
  if (stops_) return absl::UnavailableError("stopping");
  Place& place = places_[request.sequence];
  if (place.matcher == nullptr || place.grammar != request.grammar) {
    place = {.grammar = request.grammar,
             .matcher = grammar.NewMatcher(&stops_)};
  }
  absl::StatusOr<grammar::TokenMasks> computed = Masks(request, *place.matcher);
  if (!computed.ok()) {
    places_.erase(request.sequence);
    if (absl::IsCancelled(computed.status())) {
      return absl::UnavailableError("stopping");
    }
    if (absl::IsResourceExhausted(computed.status())) {
      return FieldError(FieldOf(request.grammar.kind),
                        computed.status().message());
    }
    return computed.status();
  }
  grammar::TokenMasks masks = *std::move(computed);
  if (!request.prunes) {
    std::vector<int32_t> nodes(request.tree.num_nodes());
    std::iota(nodes.begin(), nodes.end(), 0);
    return MaskedTree{.tree = std::move(request.tree),
                      .nodes = std::move(nodes),
                      .masks = std::move(masks)};
  }
  std::vector<int32_t> nodes = AllowedNodes(request.tree, masks);
  MaskedTree masked = {.tree = Selected(request.tree, nodes),
                       .masks = SelectedRows(masks, nodes)};
  masked.nodes = std::move(nodes);
  return masked;
}

}  // namespace espalier::verifier
