#include "common/tokenizer/bpe.h"

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/byte_level.h"

namespace espalier {
namespace {

constexpr int64_t kNone = -1;

uint64_t PairKey(TokenId left, TokenId right) {
  return (uint64_t{static_cast<uint32_t>(left)} << 32) |
         static_cast<uint32_t>(right);
}

absl::StatusOr<TokenId> TokenOfMerge(const Vocabulary& vocabulary,
                                     const std::string& token, size_t rank) {
  auto found = vocabulary.find(token);
  if (found != vocabulary.end()) return found->second;
  constexpr size_t kMaxShown = 64;
  return absl::InvalidArgumentError(absl::StrCat(
      "model.merges[", rank, "]: no token \"",
      absl::CHexEscape(token.substr(0, kMaxShown)), "\" in model.vocab"));
}

// Not those that are added: they are no words of a text.
Vocabulary WordsOf(const TokenizerFile& file) {
  Vocabulary words;
  for (const auto& [token, id] : file.vocabulary) {
    words.emplace(ByteLevelToBytes(token), id);
  }
  for (const AddedToken& added : file.added_tokens) {
    words.erase(ByteLevelToBytes(added.content));
  }
  return words;
}

// Heap order: the lowest rank on top; among equal ranks, the leftmost.
constexpr auto kLater = [](const auto& a, const auto& b) {
  if (a.merged.rank != b.merged.rank) return a.merged.rank > b.merged.rank;
  return a.left > b.left;
};

}  // namespace

absl::StatusOr<Bpe> Bpe::Create(const TokenizerFile& file) {
  Bpe bpe;
  bool complete = true;
  for (int byte = 0; byte < 256; ++byte) {
    auto found =
        file.vocabulary.find(ByteLevelCharacter(static_cast<uint8_t>(byte)));
    if (found == file.vocabulary.end()) {
      complete = false;
    } else {
      bpe.byte_tokens_[byte] = found->second;
    }
  }
  if (!complete && !file.unknown_token.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        "model.unk_token: not supported with a vocabulary that lacks bytes: \"",
        absl::CHexEscape(file.unknown_token), "\""));
  }

  bpe.merges_.reserve(file.merges.size());
  for (size_t rank = 0; rank < file.merges.size(); ++rank) {
    const auto& [left, right] = file.merges[rank];
    ASSIGN_OR_RETURN(const TokenId left_id,
                     TokenOfMerge(file.vocabulary, left, rank));
    ASSIGN_OR_RETURN(const TokenId right_id,
                     TokenOfMerge(file.vocabulary, right, rank));
    ASSIGN_OR_RETURN(const TokenId id,
                     TokenOfMerge(file.vocabulary, left + right, rank));
    // If a pair is listed twice, `tokenizers` keeps the last entry.
    bpe.merges_[PairKey(left_id, right_id)] = {
        .rank = static_cast<int32_t>(rank), .id = id};
  }
  if (file.ignore_merges) bpe.words_ = WordsOf(file);
  return bpe;
}

const Bpe::Merged* Bpe::Find(TokenId left, TokenId right) const {
  auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::QueuePair(int64_t left, Workspace& workspace) const {
  const auto& symbols = workspace.symbols_;
  if (left == kNone || symbols[left].next == kNone) return;
  const Merged* merged = Find(symbols[left].id, symbols[symbols[left].next].id);
  if (merged == nullptr) return;
  workspace.heap_.push_back({.left = left, .merged = *merged});
  std::push_heap(workspace.heap_.begin(), workspace.heap_.end(), kLater);
}

void Bpe::EncodeWord(std::string_view word, Workspace& workspace,
                     std::vector<TokenId>& ids) const {
  if (!words_.empty()) {
    const auto found = words_.find(std::string(word));
    if (found != words_.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  auto& symbols = workspace.symbols_;
  auto& heap = workspace.heap_;
  symbols.clear();
  heap.clear();
  for (char c : word) {
    const std::optional<TokenId> id = byte_tokens_[static_cast<uint8_t>(c)];
    if (!id.has_value()) continue;
    const auto position = static_cast<int64_t>(symbols.size());
    symbols.push_back(
        {.id = *id, .previous = position - 1, .next = position + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = kNone;
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    QueuePair(static_cast<int64_t>(i), workspace);
  }

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), kLater);
    const auto [left, merged] = heap.back();
    heap.pop_back();
    auto& symbol = symbols[left];
    if (symbol.dead || symbol.next == kNone) continue;
    auto& right = symbols[symbol.next];
    // The pair may have changed since it was queued.
    const Merged* now = Find(symbol.id, right.id);
    if (now == nullptr || now->rank != merged.rank) continue;

    symbol.id = merged.id;
    symbol.next = right.next;
    right.dead = true;
    if (symbol.next != kNone) symbols[symbol.next].previous = left;
    QueuePair(symbol.previous, workspace);
    QueuePair(left, workspace);
  }

  for (int64_t at = 0; at != kNone; at = symbols[at].next) {
    ids.push_back(symbols[at].id);
  }
}

}  // namespace espalier
