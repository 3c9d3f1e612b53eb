#ifndef ESPALIER_TESTS_TESTING_TOY_TARGET_H_
#define ESPALIER_TESTS_TESTING_TOY_TARGET_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/features.h"
#include "common/speculation/prefix_hash.h"
#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"

namespace espalier {

// A target model for tests: the next token is a pure function of the text so
// far, so that every test knows the output of plain decoding.
struct ToyTarget {
  int64_t vocab_size = 50;

  TokenId Next(absl::Span<const TokenId> text) const {
    return static_cast<TokenId>(PrefixHash(text) %
                                static_cast<uint64_t>(vocab_size));
  }

  // Hidden state at one point, of the last token of `text`. [hidden_size]
  static constexpr TargetShape kShape = {.num_layers = 4, .hidden_size = 2};
  static std::vector<uint16_t> StateAt(int32_t tap,
                                       absl::Span<const TokenId> text) {
    const uint64_t hash = PrefixHash(text) * 31 + static_cast<uint64_t>(tap);
    return {static_cast<uint16_t>(hash), static_cast<uint16_t>(hash >> 16)};
  }
  // Returns the states of the positions first .. end - 1.
  static FeatureRows StatesOf(absl::Span<const TokenId> text, int64_t first,
                              int64_t end, const std::vector<int32_t>& taps) {
    FeatureRows rows = {
        .first_position = first,
        .width = static_cast<int64_t>(taps.size()) * kShape.hidden_size};
    for (int64_t i = first; i < end; ++i) {
      for (int32_t tap : taps) {
        const auto state = StateAt(tap, text.first(i + 1));
        rows.data.insert(rows.data.end(), state.begin(), state.end());
      }
    }
    return rows;
  }

  // Returns what plain decoding emits after `prompt`, up to and with a stop
  // token.
  std::vector<TokenId> PlainText(
      std::vector<TokenId> prompt, int64_t max_tokens,
      const std::vector<TokenId>& stop_tokens = {}) const {
    std::vector<TokenId> emitted;
    while (static_cast<int64_t>(emitted.size()) < max_tokens) {
      const TokenId token = Next(prompt);
      prompt.push_back(token);
      emitted.push_back(token);
      if (std::count(stop_tokens.begin(), stop_tokens.end(), token)) break;
    }
    return emitted;
  }

  // Returns the tree of a drafter that knows the target: a chain of correct
  // tokens.
  TokenTree PerfectChain(std::vector<TokenId> text, int64_t depth) const {
    TokenTree tree = TokenTree::RootOnly(text.back());
    for (int32_t i = 0; i < depth; ++i) {
      text.push_back(Next(text));
      tree.Add(i, text.back(), -0.1f * static_cast<float>(i + 1));
    }
    return tree;
  }

  // Returns a chain without a correct token.
  TokenTree WrongChain(std::vector<TokenId> text, int64_t depth) const {
    TokenTree tree = TokenTree::RootOnly(text.back());
    for (int32_t i = 0; i < depth; ++i) {
      const TokenId wrong = static_cast<TokenId>((Next(text) + 1) % vocab_size);
      text.push_back(wrong);
      tree.Add(i, wrong, -0.01f * static_cast<float>(i + 1));
    }
    return tree;
  }
};

}  // namespace espalier

#endif  // ESPALIER_TESTS_TESTING_TOY_TARGET_H_
