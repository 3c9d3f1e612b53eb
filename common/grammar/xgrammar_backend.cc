#include <algorithm>
#include <exception>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/grammar/grammar.h"
#include "common/grammar/schema_keywords.h"
#include "common/grammar/xgrammar_log.h"
#include "common/spec/request_errors.h"
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
                  std::shared_ptr<const Vocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)), matcher_(grammar) {}

  absl::Status Follow(absl::Span<const TokenId> output) override {
    try {
      return Move(output);
    } catch (const std::exception& error) {
      return Failure(error);
    }
  }

  absl::StatusOr<TokenMasks> MasksOf(const TokenTree& tree,
                                     absl::Duration limit) override {
    try {
      return FilledMasks(tree, limit);
    } catch (const std::exception& error) {
      return Failure(error);
    }
  }

 private:
  static absl::Status Failure(const std::exception& error) {
    return absl::InternalError(
        absl::StrCat("xgrammar: ", Printable(error.what(), kMaxShown)));
  }

  absl::Status Move(absl::Span<const TokenId> output) {
    const auto [held, wanted] = std::mismatch(
        accepted_.begin(), accepted_.end(), output.begin(), output.end());
    TakeBack(accepted_.end() - held);
    for (auto token = wanted; token != output.end(); ++token) {
      if (Accept(*token)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the grammar does not allow token ", *token, " after ",
                       accepted_.size(), " tokens of output"));
    }
    return absl::OkStatus();
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

  const std::shared_ptr<const Vocabulary> vocabulary_;
  xgrammar::GrammarMatcher matcher_;
  std::vector<TokenId> accepted_;
  int64_t num_ends_ = 0;  // the last accepted tokens, which are not in matcher_
};

class XgrammarGrammar final : public Grammar {
 public:
  XgrammarGrammar(xgrammar::CompiledGrammar grammar,
                  std::shared_ptr<const Vocabulary> vocabulary)
      : grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)) {}

  std::unique_ptr<Matcher> NewMatcher() const override {
    return std::make_unique<XgrammarMatcher>(grammar_, vocabulary_);
  }
  int64_t num_bytes() const override {
    return static_cast<int64_t>(grammar_.MemorySizeBytes());
  }

 private:
  const xgrammar::CompiledGrammar grammar_;
  const std::shared_ptr<const Vocabulary> vocabulary_;
};

// As vLLM's choice_as_grammar.
std::string ChoiceGrammar(const std::vector<std::string>& choices) {
  std::string grammar = "root ::= ";
  absl::string_view separator = "\"";
  for (const std::string& choice : choices) {
    absl::StrAppend(&grammar, separator);
    for (const char c : choice) {
      if (c == '\n') {
        grammar += "\\n";
      } else if (c == '\r') {
        grammar += "\\r";
      } else {
        if (c == '"' || c == '\\') grammar += '\\';
        grammar += c;
      }
    }
    separator = "\" | \"";
  }
  return absl::StrCat(grammar, "\"");
}

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
      const GrammarSpec& spec) const override {
    RETURN_IF_ERROR(ValidateGrammarSpec(spec));
    if (spec.kind == GrammarSpec::Kind::kJsonSchema) {
      const absl::Status followed = CheckSchemaKeywords(spec.text);
      if (!followed.ok()) return Refusal(spec, followed.message());
    }
    XgrammarWarnings warnings;
    try {
      auto grammar =
          std::make_shared<const XgrammarGrammar>(Compiled(spec), vocabulary_);
      if (!warnings.first().empty()) return Refusal(spec, warnings.first());
      return grammar;
    } catch (const std::exception& error) {
      return Refusal(spec, error.what());
    }
  }

 private:
  static absl::Status Refusal(const GrammarSpec& spec, absl::string_view why) {
    return FieldError(FieldOf(spec.kind), Printable(why, kMaxShown));
  }

  xgrammar::CompiledGrammar Compiled(const GrammarSpec& spec) const {
    xgrammar::GrammarCompiler compiler(tokens_, /*max_threads=*/1,
                                       /*cache_enabled=*/false);
    switch (spec.kind) {
      case GrammarSpec::Kind::kJsonObject:
        return compiler.CompileJSONSchema(R"({"type":"object"})",
                                          !spec.compact);
      case GrammarSpec::Kind::kJsonSchema:
        return compiler.CompileJSONSchema(spec.text, !spec.compact);
      case GrammarSpec::Kind::kRegex:
        return compiler.CompileRegex(spec.text);
      case GrammarSpec::Kind::kChoice:
        return compiler.CompileGrammar(ChoiceGrammar(spec.choices));
      case GrammarSpec::Kind::kStructuralTag:
        return compiler.CompileStructuralTag(spec.text);
      default:
        return compiler.CompileGrammar(spec.text);
    }
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
