#ifndef ESPALIER_COMMON_TOKENIZER_TOKENIZER_H_
#define ESPALIER_COMMON_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/spec/types.h"
#include "common/tokenizer/added_token_matcher.h"
#include "common/tokenizer/bpe.h"
#include "common/tokenizer/tokenizer_file.h"
#include "common/tokenizer/tokenizer_settings.h"

namespace espalier {

// What special tokens written out in a text, such as "<|im_end|>", become.
enum class SpecialText {
  kToken,  // the token: for text that the operator vouches for
  kPlain,  // text like any other: for what a user may have written
};

// Byte-level BPE out of a Hugging Face tokenizer.json; gives the ids that the
// `tokenizers` package gives, for any bytes. Immutable: any thread may call
// anything at any time.
class Tokenizer {
 public:
  // From a model folder, or from a tokenizer.json alone, which then has
  // neither end-of-sequence ids nor a chat template.
  // NOT_FOUND: no such file. INVALID_ARGUMENT: a broken one.
  // UNIMPLEMENTED: a kind of tokenizer we do not know. All name the field.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
      const std::filesystem::path& path);

  // As Load, of what the files say.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(
      const TokenizerFile& file, TokenizerSettings settings);

  // Invalid UTF-8 is repaired first (utf8.h). Bytes that have no token are
  // dropped. Nothing is put before or after the text.
  std::vector<TokenId> Encode(std::string_view text,
                              SpecialText special = SpecialText::kToken) const;

  // Valid UTF-8 whatever the ids; unknown ones are skipped.
  std::string Decode(absl::Span<const TokenId> ids, bool skip_special) const;

  // One more than the largest id.
  int64_t vocab_size() const { return static_cast<int64_t>(tokens_.size()); }

  // See fingerprint.h.
  uint64_t fingerprint() const { return fingerprint_; }

  // Any of these ends an answer. Ascending.
  absl::Span<const TokenId> eos_ids() const { return settings_.eos_ids; }

  // Jinja; empty if the folder has none.
  std::string_view chat_template() const { return settings_.chat_template; }

  // By the spelling of tokenizer.json, i.e. "Ġthe" for " the".
  std::optional<TokenId> TokenToId(std::string_view token) const;

  // What `id` adds to a text, perhaps half a character; empty if unknown.
  std::string_view BytesOf(TokenId id) const;

  bool IsSpecial(TokenId id) const;

 private:
  struct Token {
    std::string bytes;
    bool known = false;  // there may be gaps between ids
    bool special = false;
  };

  explicit Tokenizer(Bpe bpe) : bpe_(std::move(bpe)) {}

  // The steps of Create.
  absl::Status AddVocabulary(const TokenizerFile& file);
  absl::Status AddAddedTokens(const TokenizerFile& file);
  absl::Status AddSettings(TokenizerSettings settings);

  absl::StatusOr<Token*> ClaimId(TokenId id, std::string_view token);
  bool IsKnown(TokenId id) const;
  void CutOut(const AddedTokenMatcher& matcher, std::string_view text,
              SpecialText special, std::vector<TokenId>& ids,
              absl::FunctionRef<void(std::string_view)> between) const;

  Bpe bpe_;
  bool normalize_to_nfc_ = false;
  PreTokenizer pre_tokenizer_;
  AddedTokenMatcher first_matcher_;   // the tokens that are not normalized
  AddedTokenMatcher second_matcher_;  // the rest, in what the first left over
  Vocabulary ids_;
  std::vector<Token> tokens_;  // [vocab_size], by id
  TokenizerSettings settings_;
  uint64_t fingerprint_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_TOKENIZER_H_
