#include "common/tokenizer/fingerprint.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace espalier {
namespace {

// FNV-1a, 64 bit.
class Hasher {
 public:
  void AddByte(uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3; }

  void AddNumber(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      AddByte(static_cast<uint8_t>(number >> shift));
    }
  }

  // The size comes first, so that different lists of texts hash differently.
  void AddText(std::string_view text) {
    AddNumber(text.size());
    for (char c : text) AddByte(static_cast<uint8_t>(c));
  }

  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

// Drafters state the fingerprint of their target, so that of the first
// supported patterns stays what it was: their number.
void AddSplits(const std::vector<SplitPattern>& splits, Hasher& hasher) {
  constexpr std::array<std::string_view, 4> kNumbered = {
      "", kGpt2Pattern, kQwen2Pattern, kLlama3Pattern};
  std::string_view only;
  if (!splits.empty()) only = splits[0].pattern();
  const auto found = std::find(kNumbered.begin(), kNumbered.end(), only);
  if (splits.size() <= 1 && found != kNumbered.end()) {
    hasher.AddByte(static_cast<uint8_t>(found - kNumbered.begin()));
    return;
  }
  hasher.AddByte(kNumbered.size());
  hasher.AddNumber(splits.size());
  for (const SplitPattern& split : splits) hasher.AddText(split.pattern());
}

// Form C alone stays what it was.
void AddNormalizer(const Normalizer& normalizer, Hasher& hasher) {
  const auto& steps = normalizer.steps();
  if (steps.empty()) return;
  hasher.AddByte(1);
  if (steps.size() == 1 && steps[0].kind == Normalizer::Kind::kForm &&
      steps[0].form == NormalForm::kNfc) {
    return;
  }
  hasher.AddNumber(steps.size());
  for (const Normalizer::Step& step : steps) {
    hasher.AddByte(static_cast<uint8_t>(step.kind));
    hasher.AddText(step.from);
    hasher.AddText(step.to);
    hasher.AddByte(step.left);
    hasher.AddByte(step.right);
    if (step.form != NormalForm::kNfc) {
      hasher.AddByte(static_cast<uint8_t>(step.form));
    }
  }
}

void AddCharacters(const TokenizerFile& file, Hasher& hasher) {
  hasher.AddByte(3);
  hasher.AddByte(file.byte_fallback);
  hasher.AddByte(file.fuse_unknown);
  hasher.AddText(file.unknown_token);
  const auto& metaspace = file.pre_tokenizer.metaspace;
  if (metaspace.has_value()) {
    hasher.AddText(metaspace->replacement);
    hasher.AddByte(static_cast<uint8_t>(metaspace->prepend));
    hasher.AddByte(metaspace->split);
  }
  for (int32_t rank : file.merge_ranks) {
    hasher.AddNumber(static_cast<uint64_t>(rank));
  }
}

void AddAddedTokens(std::vector<AddedToken> tokens, Hasher& hasher) {
  const auto key = [](const AddedToken& token) {
    return std::tie(token.id, token.content, token.special, token.normalized);
  };
  std::sort(tokens.begin(), tokens.end(),
            [&](const AddedToken& a, const AddedToken& b) {
              return key(a) < key(b);
            });
  hasher.AddNumber(tokens.size());
  for (const AddedToken& token : tokens) {
    hasher.AddNumber(static_cast<uint64_t>(token.id));
    hasher.AddText(token.content);
    hasher.AddByte(token.special);
    hasher.AddByte(token.normalized);
    if (token.single_word) hasher.AddByte(4);
    if (token.left_blanks) hasher.AddByte(5);
    if (token.right_blanks) hasher.AddByte(6);
  }
}

}  // namespace

uint64_t FingerprintOf(const TokenizerFile& file) {
  Hasher hasher;
  const std::optional<size_t>& digits = file.pre_tokenizer.split_digits;
  hasher.AddByte(digits.has_value());
  if (digits.value_or(0) > 0) hasher.AddNumber(*digits);
  AddSplits(file.pre_tokenizer.splits, hasher);

  std::vector<std::pair<TokenId, std::string_view>> tokens;
  for (const auto& [token, id] : file.vocabulary)
    tokens.emplace_back(id, token);
  std::sort(tokens.begin(), tokens.end());
  hasher.AddNumber(tokens.size());
  for (const auto& [id, token] : tokens) {
    hasher.AddNumber(static_cast<uint64_t>(id));
    hasher.AddText(token);
  }

  AddAddedTokens(file.added_tokens, hasher);

  hasher.AddNumber(file.merges.size());
  for (const auto& [left, right] : file.merges) {
    hasher.AddText(left);
    hasher.AddText(right);
  }
  AddNormalizer(file.normalizer, hasher);
  if (file.ignore_merges) hasher.AddByte(2);
  if (file.alphabet == Alphabet::kCharacters) AddCharacters(file, hasher);
  return hasher.hash();
}

}  // namespace espalier
