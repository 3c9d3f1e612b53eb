#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/grammar/ebnf_escapes.h"
#include "common/grammar/grammar.h"
#include "common/grammar/regex.h"
#include "common/grammar/schema_grammar.h"
#include "common/grammar/structural_tag.h"
#include "common/grammar/work_budget.h"
#include "common/grammar/xgrammar_log.h"
#include "common/speculation/request_errors.h"
#include "xgrammar/xgrammar.h"

namespace espalier::grammar {
namespace {

constexpr size_t kMaxShown = 512;  // bytes of a message

DLTensor Tensor(void* data, int64_t* shape, int dimensions, uint8_t bits) {
  DLTensor tensor = {};
  tensor.data = data;
  tensor.device = {kDLCPU, 0};
  tensor.ndim = dimensions;
  tensor.dtype = {kDLInt, bits, 1};
  tensor.shape = shape;
  return tensor;
}

// A tree as xgrammar takes it: the first child and the next sibling of each
// node, -1: none.
struct LinkedTree {
  explicit LinkedTree(const TokenTree& tree)
      : child(tree.num_nodes(), -1),
        sibling(tree.num_nodes(), -1),
        token(tree.tokens.begin(), tree.tokens.end()) {
    for (int64_t i = tree.num_nodes() - 1; i > 0; --i) {
      sibling[i] = std::exchange(child[tree.parents[i]], i);
    }
  }
  std::vector<int64_t> child, sibling, token;
};

class XgrammarMatcher final : public Matcher {
 public:
  XgrammarMatcher(const xgrammar::CompiledGrammar& grammar,
                  std::shared_ptr<const Vocabulary> vocabulary,
                  const std::atomic<bool>* stop)
      : grammar_(grammar),
        vocabulary_(std::move(vocabulary)),
        stop_(stop),
        matcher_(grammar) {}

  absl::Status Follow(absl::Span<const TokenId> output) override {
    try {
      return Move(output);
    } catch (const WorkExhausted&) {
      Reset();
      return Exhausted();
    } catch (const std::exception& error) {
      return Failure(error);
    }
  }

  absl::StatusOr<TokenMasks> MasksOf(const TokenTree& tree,
                                     absl::Duration limit) override {
    const TokenTree root = TokenTree::RootOnly(tree.tokens[0]);
    const bool needs_all = limit == absl::InfiniteDuration();
    if (tree.num_nodes() == 1 || (trees_are_slow_ && !needs_all)) {
      return Masks(root, absl::InfiniteDuration(), kMaxStepWork);
    }
    std::vector<TokenId> output = accepted_;
    const int64_t steps = needs_all ? tree.num_nodes() : 1;
    absl::StatusOr<TokenMasks> masks = Masks(tree, limit, steps * kMaxStepWork);
    if (needs_all || !absl::IsResourceExhausted(masks.status())) return masks;
    trees_are_slow_ = true;
    RETURN_IF_ERROR(Follow(output));
    return Masks(root, absl::InfiniteDuration(), kMaxStepWork);
  }

 private:
  static absl::Status Failure(const std::exception& error) {
    return absl::InternalError(
        absl::StrCat("xgrammar: ", Printable(error.what(), kMaxShown)));
  }

  absl::Status Exhausted() const {
    if (stop_ != nullptr && *stop_) return absl::CancelledError("stopping");
    return absl::ResourceExhaustedError(
        absl::StrCat("a step of the output takes more than ", kMaxStepWork,
                     " steps of the grammar: make it less ambiguous"));
  }

  // The library's parser may be broken.
  void Reset() {
    matcher_ = xgrammar::GrammarMatcher(grammar_);
    accepted_.clear();
    num_ends_ = 0;
  }

  absl::Status Move(absl::Span<const TokenId> output) {
    const auto [held, wanted] = std::mismatch(
        accepted_.begin(), accepted_.end(), output.begin(), output.end());
    TakeBack(accepted_.end() - held);
    for (auto token = wanted; token != output.end(); ++token) {
      WorkBudget budget(kMaxStepWork, stop_);
      if (Accept(*token)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the grammar does not allow token ", *token, " after ",
                       accepted_.size(), " tokens of output"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TokenMasks> Masks(const TokenTree& tree, absl::Duration limit,
                                   int64_t work) {
    try {
      WorkBudget budget(work, stop_);
      return FilledMasks(tree, limit);
    } catch (const WorkExhausted&) {
      Reset();
      return Exhausted();
    } catch (const std::exception& error) {
      return Failure(error);
    }
  }

  TokenMasks FilledMasks(const TokenTree& tree, absl::Duration limit) {
    const int64_t vocab_size = std::ssize(vocabulary_->tokens);
    TokenMasks masks(tree.num_nodes(), vocab_size);
    if (!Fill(tree, limit, masks)) {
      masks = TokenMasks(1, vocab_size);
      Fill(TokenTree::RootOnly(tree.tokens[0]), absl::InfiniteDuration(),
           masks);
    }
    for (int64_t row = 0; row < masks.num_rows(); ++row) {
      if (masks.CountAllowed(row) > 0) continue;
      for (TokenId token : vocabulary_->end_tokens) masks.Allow(row, token);
    }
    return masks;
  }

  bool IsEnd(TokenId token) const {
    const auto& ends = vocabulary_->end_tokens;
    return std::find(ends.begin(), ends.end(), token) != ends.end();
  }

  // After the last step that xgrammar takes, tokens of end of sequence follow.
  bool Accept(TokenId token) {
    const bool takes = num_ends_ == 0 && matcher_.AcceptToken(token);
    if (!takes) {
      if (!IsEnd(token) || (num_ends_ == 0 && AllowsAny())) return false;
      ++num_ends_;
    }
    accepted_.push_back(token);
    return true;
  }

  bool AllowsAny() {
    TokenMasks mask(1, std::ssize(vocabulary_->tokens));
    return Fill(TokenTree::RootOnly(0), absl::InfiniteDuration(), mask) &&
           mask.CountAllowed(0) > 0;
  }

  void TakeBack(int64_t count) {
    accepted_.resize(accepted_.size() - count);
    const int64_t ends = std::min(count, num_ends_);
    num_ends_ -= ends;
    if (count > ends) matcher_.Rollback(static_cast<int>(count - ends));
  }

  // Rows of nodes that are not reached stay as they are. False: it took too
  // long.
  bool Fill(const TokenTree& tree, absl::Duration limit, TokenMasks& masks) {
    if (num_ends_ > 0) return true;
    LinkedTree linked(tree);
    int64_t nodes[] = {tree.num_nodes()};
    int64_t rows[] = {masks.num_rows(),
                      TokenMasks::WordsOf(masks.vocab_size())};
    const DLTensor child = Tensor(linked.child.data(), nodes, 1, 64);
    const DLTensor sibling = Tensor(linked.sibling.data(), nodes, 1, 64);
    const DLTensor token = Tensor(linked.token.data(), nodes, 1, 64);
    DLTensor words = Tensor(masks.MutableRow(0).data(), rows, 2, 32);
    const double seconds =
        limit == absl::InfiniteDuration() ? -1 : absl::ToDoubleSeconds(limit);
    return matcher_.TraverseDraftTree(&child, &sibling, &token, &words,
                                      seconds);
  }

  const xgrammar::CompiledGrammar grammar_;
  const std::shared_ptr<const Vocabulary> vocabulary_;
  const std::atomic<bool>* const stop_;
  xgrammar::GrammarMatcher matcher_;
  std::vector<TokenId> accepted_;
  int64_t num_ends_ = 0;  // the last accepted tokens, which are not in matcher_
  bool trees_are_slow_ = false;  // one took too much work
};

class XgrammarGrammar final : public Grammar {
 public:
  XgrammarGrammar(xgrammar::CompiledGrammar grammar,
                  std::shared_ptr<const Vocabulary> vocabulary)
      : grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)) {}

  std::unique_ptr<Matcher> NewMatcher(
      const std::atomic<bool>* stop) const override {
    return std::make_unique<XgrammarMatcher>(grammar_, vocabulary_, stop);
  }
  int64_t num_bytes() const override {
    return static_cast<int64_t>(grammar_.MemorySizeBytes());
  }

 private:
  const xgrammar::CompiledGrammar grammar_;
  const std::shared_ptr<const Vocabulary> vocabulary_;
};

// Its own caches are off: a rule of one client's grammar would serve another's
// by a hash alone.
class XgrammarBackend final : public Backend {
 public:
  explicit XgrammarBackend(Vocabulary vocabulary)
      : vocabulary_(std::make_shared<const Vocabulary>(std::move(vocabulary))),
        tokens_(vocabulary_->tokens, xgrammar::VocabType::RAW,
                static_cast<int>(vocabulary_->tokens.size()),
                vocabulary_->end_tokens) {}

  absl::StatusOr<std::shared_ptr<const Grammar>> Compile(
      const GrammarSpec& spec, const CompileLimit& limit) const override {
    RETURN_IF_ERROR(ValidateGrammarSpec(spec));
    XgrammarWarnings warnings;
    WorkBudget budget(limit.work, limit.stop);
    try {
      const absl::StatusOr<xgrammar::CompiledGrammar> compiled = Compiled(spec);
      if (!compiled.ok()) return Refusal(spec, compiled.status().message());
      if (!warnings.first().empty()) return Refusal(spec, warnings.first());
      return std::make_shared<const XgrammarGrammar>(*compiled, vocabulary_);
    } catch (const WorkExhausted&) {
      if (limit.stop != nullptr && *limit.stop) {
        return absl::CancelledError("stopping");
      }
      return absl::ResourceExhaustedError(
          absl::StrCat("takes more than ", limit.work, " steps to compile"));
    } catch (const std::exception& error) {
      return Refusal(spec, error.what());
    }
  }

 private:
  static absl::Status Refusal(const GrammarSpec& spec, absl::string_view why) {
    return FieldError(FieldOf(spec.kind), Printable(why, kMaxShown));
  }

  absl::StatusOr<xgrammar::CompiledGrammar> Compiled(
      const GrammarSpec& spec) const {
    xgrammar::GrammarCompiler compiler(tokens_, /*max_threads=*/1,
                                       /*cache_enabled=*/false);
    if (spec.kind == GrammarSpec::Kind::kEbnf) {
      return compiler.CompileGrammar(WithTwoDigitEscapes(spec.text));
    }
    if (spec.kind == GrammarSpec::Kind::kStructuralTag) {
      ASSIGN_OR_RETURN(const std::string tag,
                       WithOwnGrammars(spec.text, spec.compact));
      return compiler.CompileStructuralTag(tag);
    }
    ASSIGN_OR_RETURN(const RuleSet rules, RulesOf(spec));
    if (rules.automaton() >= kMaxAutomaton) {
      return absl::InvalidArgumentError(
          absl::StrCat("its automaton would have more than ", kMaxAutomaton,
                       " states: repeat less, or nest less"));
    }
    return compiler.CompileGrammar(rules.ToEbnf());
  }

  static absl::StatusOr<RuleSet> RulesOf(const GrammarSpec& spec) {
    if (spec.kind == GrammarSpec::Kind::kJsonObject) {
      return AnyObjectGrammar(spec.compact);
    }
    if (spec.kind == GrammarSpec::Kind::kJsonSchema) {
      return SchemaGrammar(spec.text, spec.compact);
    }
    if (spec.kind == GrammarSpec::Kind::kRegex) {
      ASSIGN_OR_RETURN(const Regex regex,
                       ParseRegex(spec.text, RegexClasses::kJavaScript));
      return RuleSet{{regex.whole}};
    }
    std::vector<ExpressionPtr> choices;
    for (const std::string& choice : spec.choices) {
      choices.push_back(Text(choice));
    }
    return RuleSet{{Choice(std::move(choices))}};
  }

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const xgrammar::TokenizerInfo tokens_;
};

}  // namespace

bool HasBackend() { return true; }

std::unique_ptr<Backend> NewBackend(Vocabulary vocabulary) {
  return std::make_unique<XgrammarBackend>(std::move(vocabulary));
}

}  // namespace espalier::grammar
