// Suffix drafting: proposes what followed the text's last tokens earlier in
// this text, and in earlier answers of the same tenant (after SuffixDecoding,
// Oliaro et al., arXiv 2411.04975). Occurrences of the longest match and of
// shorter ones are counted and mixed into one distribution, so the chances of
// its nodes say how often the target goes on in this way.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"
#include "drafter/engine/drafter_factories.h"
#include "drafter/engine/option_reader.h"
#include "drafter/ngram/answer_store.h"
#include "drafter/ngram/answer_store_file.h"
#include "drafter/ngram/checked_bytes.h"
#include "drafter/ngram/suffix_index.h"
#include "drafter/ngram/tenants.h"
#include "drafter/trees/tree_builder.h"

namespace espalier::drafter {
namespace {

struct SuffixOptions {
  SuffixIndex::Options own = {};  // of a sequence's text
  TreeShape shape = {};
  bool earlier_answers = false;  // whether they are kept and looked up
  AnswerStore::Options answers = {};
  int64_t max_tenants = 1;
  std::string file = {};  // empty: they are not saved
  int64_t vocab_size = 0;
  uint64_t tokenizer_fingerprint = 0;
};

// Witten-Bell interpolation as in BackoffDistribution, from the longest context
// to shorter ones, until these have next to no weight.
class LongestFirst {
 public:
  bool has_weight_left() const { return left_ > kMinWeight; }

  void Add(absl::Span<const SuccessorCount> successors) {
    double total = 0;
    for (const SuccessorCount& entry : successors) total += entry.count;
    const double distinct = static_cast<double>(successors.size());
    if (total == 0) return;
    for (const SuccessorCount& entry : successors) {
      chances_[entry.token] += left_ * entry.count / (total + distinct);
    }
    left_ *= distinct / (total + distinct);
  }

  std::vector<Candidate> Candidates() const {
    std::vector<Candidate> candidates;
    for (const auto& [token, chance] : chances_) {
      candidates.push_back({.token = token, .log_prob = std::log(chance)});
    }
    return candidates;
  }

 private:
  static constexpr double kMinWeight = 0.02;
  double left_ = 1;
  absl::flat_hash_map<TokenId, double> chances_;
};

// Memory: of a sequence as that of prompt lookup, and 4 bytes for each token of
// its answer; of a tenant see AnswerStore.
class SuffixDrafter final : public Drafter {
 public:
  SuffixDrafter(SuffixOptions options, const SavedAnswers& saved)
      : options_(std::move(options)), tenants_(options_.max_tenants, [this] {
          return std::make_unique<AnswerStore>(options_.answers);
        }) {
    for (const SavedAnswers::Tenant& tenant : saved.tenants) {
      tenants_.Get(tenant.salt).AddAll(tenant.tokens);
    }
  }

  ~SuffixDrafter() override {
    if (options_.file.empty()) return;
    const absl::Status saved = Save();
    if (!saved.ok()) LogWarning(absl::StrCat("suffix: ", saved.message()));
  }

  bool is_quick() const override { return true; }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override {
    std::vector<TokenTree> trees;
    for (const SequenceView& view : batch) {
      Sequence& sequence = Update(view);
      const AnswerStore* const answers =
          options_.earlier_answers ? &tenants_.Get(sequence.salt) : nullptr;
      trees.push_back(
          BuildTree(view, options_.shape, [&](absl::Span<const TokenId> path) {
            return After(
                RecentTokens(view.tokens, path, options_.own.max_length),
                view.tokens, sequence.index, answers);
          }));
    }
    return trees;
  }

  void Forget(SequenceId id) override {
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) return;
    const Sequence& sequence = found->second;
    if (options_.earlier_answers) {
      tenants_.Get(sequence.salt).Add(sequence.answer);
    }
    sequences_.erase(found);
  }

 private:
  struct Sequence {
    SuffixIndex index;
    std::string salt;
    std::vector<TokenId> answer = {};  // the output so far
    int64_t length = 0;                // of the text so far
  };

  Sequence& Update(const SequenceView& view) {
    Sequence& sequence =
        sequences_
            .try_emplace(view.id,
                         Sequence{.index = SuffixIndex(options_.own),
                                  .salt = std::string(view.cache_salt)})
            .first->second;
    sequence.index.Extend(view.tokens);
    const int64_t length = std::ssize(view.tokens);
    if (options_.earlier_answers && view.prompt_length > 0) {
      const int64_t begin = std::max(sequence.length, view.prompt_length);
      if (begin < length) {
        const auto added = view.tokens.subspan(begin);
        sequence.answer.insert(sequence.answer.end(), added.begin(),
                               added.end());
      }
    }
    sequence.length = length;
    return sequence;
  }

  std::vector<Candidate> After(absl::Span<const TokenId> context,
                               absl::Span<const TokenId> text,
                               const SuffixIndex& own,
                               const AnswerStore* answers) const {
    const int64_t in_text = own.LongestMatch(text, context);
    const int64_t in_answers =
        answers == nullptr ? 0 : answers->LongestMatch(context);
    LongestFirst distribution;
    for (int64_t n = std::max(in_text, in_answers);
         n > 0 && distribution.has_weight_left(); --n) {
      const auto ngram = context.last(static_cast<size_t>(n));
      std::vector<SuccessorCount> counts;
      if (n <= in_text) counts = own.SuccessorsOf(text, ngram);
      if (n <= in_answers) AddCounts(answers->SuccessorsOf(ngram), counts);
      distribution.Add(counts);
    }
    return distribution.Candidates();
  }

  absl::Status Save() const {
    SavedAnswers saved = {
        .vocab_size = options_.vocab_size,
        .tokenizer_fingerprint = options_.tokenizer_fingerprint};
    tenants_.ForEach([&](const std::string& salt, const AnswerStore& answers) {
      saved.tenants.push_back({.salt = salt, .tokens = answers.Tokens()});
    });
    return WriteWholeFile(options_.file, SerializeAnswers(saved),
                          /*is_private=*/true);
  }

  const SuffixOptions options_;
  absl::flat_hash_map<SequenceId, Sequence> sequences_;
  Tenants<AnswerStore> tenants_;
};

int64_t PowerOfTwo(int64_t value) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value)));
}

absl::StatusOr<SuffixOptions> ReadOptions(const DrafterOptions& options) {
  OptionReader reader("suffix", options.options);
  SuffixOptions suffix = {
      .vocab_size = options.vocab_size,
      .tokenizer_fingerprint = options.tokenizer_fingerprint};
  suffix.own.max_length = reader.Integer("max_match", {6, 1, 16});
  suffix.own.max_matches = reader.Integer("max_matches", {32, 1, 1024});
  suffix.own.window =
      PowerOfTwo(reader.Integer("window", {32768, 16, 1 << 20}));
  suffix.shape = ReadTreeShape(reader, /*noise_scale=*/2);
  suffix.earlier_answers = reader.Flag("earlier_answers", false);
  suffix.answers = {.max_tokens = PowerOfTwo(reader.Integer(
                        "max_answer_tokens", {1 << 18, 64, 1 << 26})),
                    .max_length = suffix.own.max_length,
                    .max_matches = suffix.own.max_matches};
  suffix.max_tenants = reader.Integer("max_tenants", {8, 1, 4096});
  suffix.file = reader.Text("file", "");
  if (!suffix.file.empty() && !suffix.earlier_answers) {
    reader.Fail("file",
                "nothing is kept to be saved: earlier_answers is false");
  }
  RETURN_IF_ERROR(reader.Finish());
  return suffix;
}

// Returns what an earlier process saved; nothing if there is no file.
absl::StatusOr<SavedAnswers> Load(const SuffixOptions& options) {
  if (options.file.empty()) return SavedAnswers();
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "drafter suffix: option file: ", options.file, ": ", what));
  };
  const absl::StatusOr<std::string> bytes = ReadWholeFile(options.file);
  if (absl::IsNotFound(bytes.status())) return SavedAnswers();
  if (!bytes.ok()) return error(bytes.status().message());
  absl::StatusOr<SavedAnswers> saved = ParseAnswers(*bytes);
  if (!saved.ok()) return error(saved.status().message());
  if (saved->vocab_size != options.vocab_size ||
      saved->tokenizer_fingerprint != options.tokenizer_fingerprint) {
    return error("saved for another tokenizer");
  }
  return saved;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> NewSuffixDrafter(
    const DrafterOptions& options) {
  ASSIGN_OR_RETURN(SuffixOptions suffix, ReadOptions(options));
  ASSIGN_OR_RETURN(const SavedAnswers saved, Load(suffix));
  return std::make_unique<SuffixDrafter>(std::move(suffix), saved);
}

}  // namespace espalier::drafter
