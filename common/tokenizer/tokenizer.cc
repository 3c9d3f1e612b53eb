#include "common/tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "common/base/utf8.h"
#include "common/tokenizer/added_vocabulary.h"
#include "common/tokenizer/byte_level.h"
#include "common/tokenizer/fingerprint.h"
#include "common/tokenizer/special_tokens.h"
#include "common/tokenizer/unicode_classes.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

std::string Quoted(std::string_view token) {
  constexpr size_t kMaxShown = 64;
  return absl::StrCat(
      "\"", absl::CHexEscape(std::string(token.substr(0, kMaxShown))), "\"");
}

bool Overlaps(absl::Span<const ByteRange> ranges, size_t begin, size_t end) {
  const auto after =
      std::partition_point(ranges.begin(), ranges.end(),
                           [&](const ByteRange& r) { return r.end <= begin; });
  return after != ranges.end() && after->begin < end;
}

// Returns the character that ends at byte `at` > 0.
CodePoint CodePointBefore(std::string_view text, size_t at) {
  do {
    --at;
  } while ((static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return CodePointAt(text, at);
}

// Returns where the white space before byte `at` begins.
size_t BlanksBefore(std::string_view text, size_t at) {
  while (at > 0) {
    const CodePoint c = CodePointBefore(text, at);
    if (ClassOf(c.value) != CharClass::kSpace) break;
    at -= c.size;
  }
  return at;
}

// Returns where the white space from byte `at` on ends.
size_t BlanksAfter(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint c = CodePointAt(text, at);
    if (ClassOf(c.value) != CharClass::kSpace) break;
    at += c.size;
  }
  return at;
}

// Returns whether a part of a word is next to bytes [begin, end).
bool TouchesWord(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && IsWordPart(CodePointBefore(text, begin).value)) ||
         (end < text.size() && IsWordPart(CodePointAt(text, end).value));
}

// Appends the ids of the matches that `accept` takes, and calls `between` for
// the bytes before, between and after them. As `tokenizers` does it: the search
// goes on after a match itself, not after the blanks that it takes, nor within
// a match that is no single word.
void CutOut(const AddedTokenMatcher& matcher, std::string_view text,
            AddedTokenMatcher::Accept accept, std::vector<TokenId>& ids,
            absl::FunctionRef<void(size_t begin, size_t end)> between) {
  size_t done = 0, from = 0;
  while (auto match = matcher.Find(text, from, accept)) {
    const AddedToken& token = *match->token;
    size_t begin = match->begin, end = match->end;
    from = end;
    if (token.single_word && TouchesWord(text, begin, end)) continue;
    if (token.left_blanks) begin = std::max(done, BlanksBefore(text, begin));
    if (token.right_blanks) end = BlanksAfter(text, end);
    if (done < begin) between(done, begin);
    ids.push_back(token.id);
    done = end;
  }
  if (done < text.size()) between(done, text.size());
}

// A folder may have the files from which transformers makes tokenizer.json.
absl::Status NoTokenizerFile(const fs::path& folder,
                             const absl::Status& missing) {
  std::error_code none_there;
  for (const char* other : {"tokenizer.model", "vocab.json", "tekken.json"}) {
    if (!fs::exists(folder / other, none_there)) continue;
    return absl::NotFoundError(absl::StrCat(
        std::string(missing.message()), ", only ", other,
        ". Make it once, with transformers from pip:\n  python3 -c \"from "
        "transformers import AutoTokenizer as T; T.from_pretrained('",
        folder.string(), "').save_pretrained('", folder.string(), "')\""));
  }
  return missing;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(
    const fs::path& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const fs::path file_path = is_folder ? path / "tokenizer.json" : path;
  const absl::StatusOr<std::string> text = ReadTextFile(file_path);
  if (absl::IsNotFound(text.status()) && is_folder) {
    return NoTokenizerFile(path, text.status());
  }
  RETURN_IF_ERROR(text.status());
  ASSIGN_OR_RETURN(TokenizerFile file,
                   WithPrefix(file_path.string(), ParseTokenizerFile(*text)));

  const std::vector<AddedToken> own = std::move(file.added_tokens);
  file.added_tokens.clear();
  AddTokens(own, file);
  TokenizerSettings settings;
  if (is_folder) {
    ASSIGN_OR_RETURN(settings, LoadTokenizerSettings(path));
    ASSIGN_OR_RETURN(SpecialTokens special, ReadSpecialTokens(path, own));
    AddTokens(special.added, file);
    settings.named_tokens = std::move(special.named);
    const auto eos = settings.named_tokens.find("eos_token");
    if (eos != settings.named_tokens.end()) settings.eos_token = eos->second;
  }
  return WithPrefix(file_path.string(), Create(file, std::move(settings)));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(
    const TokenizerFile& file, TokenizerSettings settings) {
  ASSIGN_OR_RETURN(Bpe bpe, Bpe::Create(file));
  auto tokenizer = absl::WrapUnique(new Tokenizer(std::move(bpe)));
  tokenizer->alphabet_ = file.alphabet;
  tokenizer->normalizer_ = file.normalizer;
  tokenizer->decoder_ = file.decoder;
  tokenizer->byte_fallback_ = file.byte_fallback;
  tokenizer->decoder_strip_ = file.decoder_strip;
  tokenizer->pre_tokenizer_ = file.pre_tokenizer;
  tokenizer->fingerprint_ = FingerprintOf(file);
  RETURN_IF_ERROR(tokenizer->AddVocabulary(file));
  RETURN_IF_ERROR(tokenizer->AddAddedTokens(file));
  RETURN_IF_ERROR(tokenizer->AddSettings(std::move(settings)));
  for (TokenId id : file.prefix) {
    if (tokenizer->IsKnown(id)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("post_processor: no token has the id ", id));
  }
  tokenizer->prefix_ = file.prefix;
  for (const Token& token : tokenizer->tokens_) {
    tokenizer->max_token_bytes_ = std::max(
        tokenizer->max_token_bytes_, static_cast<int64_t>(token.bytes.size()));
  }
  return tokenizer;
}

Tokenizer::~Tokenizer() = default;

int64_t Tokenizer::MostBytesOf(int64_t num_tokens) const {
  // Forms leave up to a fourth of the bytes, lower case up to a third.
  constexpr int64_t kMaxShrunk = 12;
  const bool normalizes = !normalizer_.steps().empty();
  return num_tokens * max_token_bytes_ * (normalizes ? kMaxShrunk : 1);
}

absl::StatusOr<Tokenizer::Token*> Tokenizer::ClaimId(TokenId id,
                                                     std::string_view token) {
  const auto index = static_cast<size_t>(id);
  if (index >= tokens_.size()) tokens_.resize(index + 1);
  if (tokens_[index].known) {
    return absl::InvalidArgumentError(absl::StrCat(
        "id ", id, " of ", Quoted(token), " belongs to another token already"));
  }
  tokens_[index].known = true;
  tokens_[index].bytes = TextOf(token);
  return &tokens_[index];
}

std::string Tokenizer::TextOf(std::string_view token) const {
  if (alphabet_ == Alphabet::kByteLevel) return ByteLevelToBytes(token);
  const std::optional<uint8_t> byte =
      byte_fallback_ ? ByteOfFallback(token) : std::nullopt;
  if (byte.has_value()) return std::string(1, static_cast<char>(*byte));
  return decoder_.Normalize(token);
}

absl::Status Tokenizer::AddVocabulary(const TokenizerFile& file) {
  ids_ = file.vocabulary;
  for (const auto& [token, id] : ids_) {
    absl::StatusOr<Token*> claimed = ClaimId(id, token);
    if (!claimed.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model.vocab: ", std::string(claimed.status().message())));
    }
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::AddAddedTokens(const TokenizerFile& file) {
  std::vector<bool> seen;  // by id
  for (size_t i = 0; i < file.added_tokens.size(); ++i) {
    const AddedToken& added = file.added_tokens[i];
    auto [entry, is_new] = ids_.try_emplace(added.content, added.id);
    if (is_new) {
      absl::StatusOr<Token*> claimed = ClaimId(added.id, added.content);
      if (!claimed.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("added_tokens[", i,
                         "]: ", std::string(claimed.status().message())));
      }
    }
    const auto index = static_cast<size_t>(entry->second);
    seen.resize(std::max(seen.size(), index + 1));
    if (entry->second != added.id || seen[index]) {
      return absl::InvalidArgumentError(
          absl::StrCat("added_tokens[", i, "]: ", Quoted(added.content),
                       " has id ", entry->second, " already"));
    }
    seen[index] = true;
    tokens_[index].special = added.special;
    tokens_[index].added = true;
    if (added.special) spelled_matcher_.Add(added);
    if (!added.normalized) {
      first_matcher_.Add(added);
    } else {
      AddedToken normalized = added;
      normalized.content = normalizer_.Normalize(added.content);
      if (normalized.content.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("added_tokens[", i, "]: ", Quoted(added.content),
                         " is nothing once it is normalized"));
      }
      second_matcher_.Add(normalized);
      // This is how `tokenizers` decodes it.
      tokens_[index].bytes = TextOf(normalized.content);
    }
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::AddSettings(TokenizerSettings settings) {
  settings_ = std::move(settings);
  std::vector<TokenId>& eos_ids = settings_.eos_ids;
  for (TokenId id : eos_ids) {
    if (!IsKnown(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("eos_token_id of the model's settings is ", id,
                       ", but no token has that id"));
    }
  }
  if (!settings_.eos_token.empty()) {
    const std::optional<TokenId> id = TokenToId(settings_.eos_token);
    if (!id.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("eos_token of the model's settings is ",
                       Quoted(settings_.eos_token), ", but no token is"));
    }
    eos_ids.push_back(*id);
  }
  std::sort(eos_ids.begin(), eos_ids.end());
  eos_ids.erase(std::unique(eos_ids.begin(), eos_ids.end()), eos_ids.end());
  return absl::OkStatus();
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text,
                                       SpecialText special) const {
  const std::string valid = RepairUtf8(text);
  const ByteRange all = {.begin = 0, .end = valid.size()};
  return EncodeMixed(valid, {&all, special == SpecialText::kPlain ? 1u : 0u});
}

std::vector<TokenId> Tokenizer::EncodeMixed(
    std::string_view text, absl::Span<const ByteRange> plain) const {
  std::vector<TokenId> ids;
  Bpe::Workspace workspace;
  const auto encode_word = [&](std::string_view word) {
    bpe_.EncodeWord(word, workspace, ids);
  };
  const auto encode = [&](std::string_view part, bool at_start) {
    pre_tokenizer_.ForEachWord(part, at_start, encode_word);
  };
  const auto accept = [&](const AddedTokenMatcher::Match& match) {
    return !IsSpecial(match.token->id) ||
           !Overlaps(plain, match.begin, match.end);
  };
  CutOut(first_matcher_, text, accept, ids, [&](size_t begin, size_t end) {
    EncodeNormalized(text.substr(begin, end - begin), begin, plain, encode,
                     ids);
  });
  return ids;
}

// `part` begins at byte `begin` of the text.
void Tokenizer::EncodeNormalized(std::string_view part, size_t begin,
                                 absl::Span<const ByteRange> plain,
                                 Encoder encode,
                                 std::vector<TokenId>& ids) const {
  const bool normalizes = !normalizer_.steps().empty();
  const std::string normalized = normalizes ? normalizer_.Normalize(part) : "";
  const std::string_view text = normalizes ? normalized : part;
  // If the normalizer has moved bytes, no special token is read in a part in
  // which a user has spelled one.
  const bool moved = text != part;
  const bool trusted = !moved || !SpellsSpecial(part, begin, plain);
  const auto accept = [&](const AddedTokenMatcher::Match& match) {
    if (!IsSpecial(match.token->id)) return true;
    if (moved) return trusted;
    return !Overlaps(plain, begin + match.begin, begin + match.end);
  };
  CutOut(second_matcher_, text, accept, ids, [&](size_t from, size_t to) {
    encode(text.substr(from, to - from), begin == 0 && from == 0);
  });
}

// Returns whether a plain range of `part` has a special token once it is
// normalized.
bool Tokenizer::SpellsSpecial(std::string_view part, size_t begin,
                              absl::Span<const ByteRange> plain) const {
  const auto is_special = [this](const AddedTokenMatcher::Match& match) {
    return IsSpecial(match.token->id);
  };
  for (const ByteRange& range : plain) {
    const size_t from = std::max(range.begin, begin);
    const size_t to = std::min(range.end, begin + part.size());
    if (from >= to) continue;
    const std::string text =
        normalizer_.Normalize(part.substr(from - begin, to - from));
    if (second_matcher_.Find(text, 0, is_special).has_value()) return true;
  }
  return false;
}

std::optional<ByteRange> Tokenizer::FindSpecial(std::string_view text,
                                                size_t from) const {
  const auto is_special = [this](const AddedTokenMatcher::Match& match) {
    return IsSpecial(match.token->id);
  };
  const auto match = spelled_matcher_.Find(text, from, is_special);
  if (!match.has_value()) return std::nullopt;
  return ByteRange{.begin = match->begin, .end = match->end};
}

std::string Tokenizer::Decode(absl::Span<const TokenId> ids,
                              bool skip_special) const {
  Utf8Repair repair;
  std::string text;
  for (TokenId id : ids) {
    if (skip_special && IsSpecial(id)) continue;
    repair.Push(BytesOf(id), text);
  }
  repair.Flush(text);
  int32_t strip = 0;
  while (strip < decoder_strip_ && text[strip] == ' ') ++strip;
  return text.substr(strip);
}

std::optional<TokenId> Tokenizer::TokenToId(std::string_view token) const {
  auto found = ids_.find(std::string(token));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

bool Tokenizer::IsKnown(TokenId id) const {
  return id >= 0 && id < vocab_size() && tokens_[static_cast<size_t>(id)].known;
}

std::string_view Tokenizer::BytesOf(TokenId id) const {
  if (!IsKnown(id)) return {};
  return tokens_[static_cast<size_t>(id)].bytes;
}

bool Tokenizer::IsAdded(TokenId id) const {
  return IsKnown(id) && tokens_[static_cast<size_t>(id)].added;
}

bool Tokenizer::IsSpecial(TokenId id) const {
  return IsKnown(id) && tokens_[static_cast<size_t>(id)].special;
}

}  // namespace espalier
