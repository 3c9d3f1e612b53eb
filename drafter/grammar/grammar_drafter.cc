// Drafts what a request's grammar forces. The target would say it in most cases
// anyway, token by token; it is still the target that decides how it is divided
// into tokens (SGLang's jump-forward decoding decides that itself, and so
// changes the text).
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/grammar/grammar.h"
#include "common/grammar/grammar_compiler.h"
#include "common/grammar/vocabulary.h"
#include "common/model/files/model_identity.h"
#include "drafter/engine/drafter_factories.h"
#include "drafter/engine/option_reader.h"
#include "drafter/grammar/forced_text.h"

namespace espalier::drafter {
namespace {

// Chance that the target divides forced text into tokens as the tokenizer does,
// for each token. The coordinator's calibration corrects it.
constexpr float kChance = 0.9f;

// A grammar that is being compiled, or its place.
class GrammarPlace {
 public:
  GrammarPlace(const GrammarSpec& spec, grammar::GrammarCompiler& compiler)
      : spec_(spec), answer_(std::make_shared<Answer>()) {
    compiler.Get(spec, [answer = answer_](
                           const grammar::GrammarCompiler::Compiled& compiled) {
      MutexLock lock(&answer->mutex);
      if (compiled.ok()) answer->matcher = (*compiled)->NewMatcher();
    });
  }

  const GrammarSpec& spec() const { return spec_; }

  // Null: it is not compiled, perhaps not yet, or was given up.
  grammar::Matcher* matcher() {
    MutexLock lock(&answer_->mutex);
    return answer_->matcher.get();
  }

  void GiveUp() {
    MutexLock lock(&answer_->mutex);
    answer_->matcher = nullptr;
  }

 private:
  struct Answer {
    Mutex mutex;
    std::unique_ptr<grammar::Matcher> matcher ABSL_GUARDED_BY(mutex);
  };
  GrammarSpec spec_;
  std::shared_ptr<Answer> answer_;
};

class GrammarDrafter final : public Drafter {
 public:
  GrammarDrafter(std::unique_ptr<Tokenizer> tokenizer,
                 const grammar::Vocabulary& vocabulary,
                 std::unique_ptr<grammar::Backend> backend, int64_t max_tokens)
      : tokenizer_(std::move(tokenizer)),
        end_tokens_(vocabulary.end_tokens),
        finder_(vocabulary),
        max_tokens_(max_tokens),
        compiler_(std::move(backend), grammar::GrammarCompiler::Limits()) {}

  bool needs_grammar() const override { return true; }
  bool is_quick() const override { return true; }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override {
    std::vector<TokenTree> trees;
    for (const SequenceView& view : batch) trees.push_back(TreeFor(view));
    return trees;
  }

  void Forget(SequenceId id) override { places_.erase(id); }

 private:
  TokenTree TreeFor(const SequenceView& view) {
    TokenTree tree = TokenTree::RootOnly(view.root());
    if (!view.grammar.any() ||
        view.prompt_length > static_cast<int64_t>(view.tokens.size())) {
      return tree;
    }
    const auto found =
        places_.try_emplace(view.id, view.grammar, compiler_).first;
    if (found->second.spec() != view.grammar) {
      found->second = GrammarPlace(view.grammar, compiler_);
    }
    grammar::Matcher* const matcher = found->second.matcher();
    if (matcher == nullptr || view.budget.max_nodes == 0) return tree;
    const auto output = view.tokens.subspan(view.prompt_length);
    const auto forced = finder_.After(output, Written(output), {}, *matcher);
    if (forced.ok()) AddForced(*forced, view.budget, tree);
    // A step takes too much work, and would again.
    if (absl::IsResourceExhausted(forced.status())) found->second.GiveUp();
    return tree;
  }

  // Returns the end of the output's text: enough to see how it is laid out.
  std::string Written(absl::Span<const TokenId> output) const {
    constexpr size_t kTokens = 256;
    std::string text;
    for (TokenId token :
         output.subspan(output.size() - std::min(output.size(), kTokens))) {
      text += tokenizer_->BytesOf(token);
    }
    return text;
  }

  // A chain, and the tokens of end of sequence after its end.
  void AddForced(const ForcedText& forced, const DraftBudget& budget,
                 TokenTree& tree) const {
    const std::vector<TokenId> tokens =
        tokenizer_->Encode(forced.bytes, SpecialText::kPlain);
    const int64_t most =
        std::min({budget.max_nodes, budget.max_depth, max_tokens_});
    int32_t node = 0;
    float log_prob = 0;
    for (TokenId token : tokens) {
      if (tree.num_nodes() > most) return;
      log_prob += std::log(kChance);
      node = tree.Add(node, token, log_prob);
    }
    if (!forced.at_end) return;
    for (TokenId token : end_tokens_) {
      if (tree.num_nodes() > most) return;
      log_prob += std::log(kChance);
      tree.Add(node, token, log_prob);
    }
  }

  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::vector<TokenId> end_tokens_;
  const ForcedTextFinder finder_;
  const int64_t max_tokens_;
  absl::flat_hash_map<SequenceId, GrammarPlace> places_;
  grammar::GrammarCompiler compiler_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> NewGrammarDrafter(
    const DrafterOptions& options) {
  OptionReader reader("grammar", options.options);
  const int64_t max_tokens = reader.Integer("max_tokens", {16, 1, 1024});
  RETURN_IF_ERROR(reader.Finish());
  ASSIGN_OR_RETURN(TargetIdentity target,
                   IdentifyTarget(options.target_folder, /*name=*/""));
  const grammar::Vocabulary vocabulary = grammar::VocabularyOf(
      *target.tokenizer, options.vocab_size, target.end_tokens);
  if (vocabulary.end_tokens.empty()) {
    return absl::InvalidArgumentError(
        "grammar: the tokenizer has no end-of-sequence token");
  }
  auto backend = grammar::NewBackend(vocabulary);
  if (backend == nullptr) {
    return absl::UnimplementedError(
        "grammar: this build has no structured output");
  }
  return std::make_unique<GrammarDrafter>(
      std::move(target.tokenizer), vocabulary, std::move(backend), max_tokens);
}

}  // namespace espalier::drafter
