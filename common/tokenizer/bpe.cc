#include "common/tokenizer/bpe.h"

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
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
  const auto word_of = [&](const std::string& token) {
    return file.alphabet == Alphabet::kByteLevel ? ByteLevelToBytes(token)
                                                 : token;
  };
  Vocabulary words;
  for (const auto& [token, id] : file.vocabulary) {
    words.emplace(word_of(token), id);
  }
  for (const AddedToken& added : file.added_tokens) {
    words.erase(word_of(added.content));
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
  bpe.alphabet_ = file.alphabet;
  RETURN_IF_ERROR(file.alphabet == Alphabet::kByteLevel
                      ? bpe.AddBytes(file)
                      : bpe.AddCharacters(file));
  RETURN_IF_ERROR(bpe.AddMerges(file));
  if (file.ignore_merges) bpe.words_ = WordsOf(file);
  return bpe;
}

absl::Status Bpe::AddBytes(const TokenizerFile& file) {
  bool complete = true;
  for (int byte = 0; byte < 256; ++byte) {
    auto found =
        file.vocabulary.find(ByteLevelCharacter(static_cast<uint8_t>(byte)));
    if (found == file.vocabulary.end()) {
      complete = false;
    } else {
      byte_tokens_[byte] = found->second;
    }
  }
  if (complete || file.unknown_token.empty()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "model.unk_token: not supported with a vocabulary that lacks bytes: \"",
      absl::CHexEscape(file.unknown_token), "\""));
}

absl::Status Bpe::AddCharacters(const TokenizerFile& file) {
  for (const auto& [token, id] : file.vocabulary) {
    if (token.empty() || CharacterSize(token, 0) != token.size()) continue;
    characters_[CodePointAt(token, 0).value] = id;
  }
  for (int byte = 0; byte < 256 && file.byte_fallback; ++byte) {
    auto found =
        file.vocabulary.find(ByteFallbackToken(static_cast<uint8_t>(byte)));
    if (found != file.vocabulary.end()) byte_tokens_[byte] = found->second;
  }
  fuse_unknown_ = file.fuse_unknown;
  if (file.unknown_token.empty()) return absl::OkStatus();
  const auto unknown = file.vocabulary.find(file.unknown_token);
  if (unknown == file.vocabulary.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.unk_token: no token \"",
                     absl::CHexEscape(file.unknown_token), "\""));
  }
  unknown_ = unknown->second;
  return absl::OkStatus();
}

absl::Status Bpe::AddMerges(const TokenizerFile& file) {
  merges_.reserve(file.merges.size());
  for (size_t i = 0; i < file.merges.size(); ++i) {
    const auto& [left, right] = file.merges[i];
    ASSIGN_OR_RETURN(const TokenId left_id,
                     TokenOfMerge(file.vocabulary, left, i));
    ASSIGN_OR_RETURN(const TokenId right_id,
                     TokenOfMerge(file.vocabulary, right, i));
    ASSIGN_OR_RETURN(const TokenId id,
                     TokenOfMerge(file.vocabulary, left + right, i));
    const int32_t rank = file.merge_ranks.empty() ? static_cast<int32_t>(i)
                                                  : file.merge_ranks[i];
    // If a pair is listed twice, `tokenizers` keeps the last entry.
    merges_[PairKey(left_id, right_id)] = {.rank = rank, .id = id};
  }
  return absl::OkStatus();
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
  workspace.symbols_.clear();
  workspace.heap_.clear();
  if (alphabet_ == Alphabet::kByteLevel) {
    SplitBytes(word, workspace);
  } else {
    SplitCharacters(word, workspace);
  }
  const auto& symbols = workspace.symbols_;
  if (symbols.empty()) return;
  Merge(workspace);
  for (int64_t at = 0; at != kNone; at = symbols[at].next) {
    ids.push_back(symbols[at].id);
  }
}

void Bpe::SplitBytes(std::string_view word, Workspace& workspace) const {
  for (char c : word) {
    const std::optional<TokenId> id = byte_tokens_[static_cast<uint8_t>(c)];
    if (id.has_value()) workspace.Add(*id);
  }
}

// The order of unknown tokens and others is that of `tokenizers`: an unknown
// token waits for the next known character, also while bytes pass it.
void Bpe::SplitCharacters(std::string_view word, Workspace& workspace) const {
  bool unknown_waits = false;
  for (size_t at = 0; at < word.size();) {
    const CodePoint c = CodePointAt(word, at);
    const std::string_view character = word.substr(at, c.size);
    at += c.size;
    const auto known = characters_.find(c.value);
    if (known != characters_.end()) {
      if (unknown_waits) workspace.Add(*unknown_);
      unknown_waits = false;
      workspace.Add(known->second);
    } else if (!FallBack(character, workspace) && unknown_.has_value()) {
      if (unknown_waits && !fuse_unknown_) workspace.Add(*unknown_);
      unknown_waits = true;
    }
  }
  if (unknown_waits) workspace.Add(*unknown_);
}

// Returns whether all bytes of the character have tokens, which are then added.
bool Bpe::FallBack(std::string_view character, Workspace& workspace) const {
  const auto token = [this](char c) {
    return byte_tokens_[static_cast<uint8_t>(c)];
  };
  for (char c : character) {
    if (!token(c).has_value()) return false;
  }
  for (char c : character) workspace.Add(*token(c));
  return true;
}

void Bpe::Merge(Workspace& workspace) const {
  auto& symbols = workspace.symbols_;
  auto& heap = workspace.heap_;
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
}

}  // namespace espalier
