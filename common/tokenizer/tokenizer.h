#ifndef ESPALIER_COMMON_TOKENIZER_TOKENIZER_H_
#define ESPALIER_COMMON_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/speculation/types.h"
#include "common/tokenizer/added_token_matcher.h"
#include "common/tokenizer/bpe.h"
#include "common/tokenizer/tokenizer_file.h"
#include "common/tokenizer/tokenizer_settings.h"

namespace espalier {

// How special tokens that are spelled out in a text, such as "<|im_end|>", are
// encoded.
enum class SpecialText {
  kToken,  // as the token: for trusted text
  kPlain,  // as plain text: for text that a user may have written
};

// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
};

// BPE from a Hugging Face tokenizer.json, of bytes or of SentencePiece's
// characters. Returns the same ids as the `tokenizers` package, for any bytes.
// Immutable, so thread-safe.
class Tokenizer {
 public:
  // Loads a model folder, or a tokenizer.json alone, which has neither
  // end-of-sequence ids nor a chat template.
  // NOT_FOUND: no such file. INVALID_ARGUMENT: a malformed file.
  // UNIMPLEMENTED: an unsupported kind of tokenizer. All name the field.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
      const std::filesystem::path& path);

  // Makes a tokenizer from parsed files. Errors are as of Load.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(
      const TokenizerFile& file, TokenizerSettings settings);

  ~Tokenizer();

  // Invalid UTF-8 is repaired first (utf8.h). Bytes that have no token are
  // dropped. No token is added before or after the text.
  std::vector<TokenId> Encode(std::string_view text,
                              SpecialText special = SpecialText::kToken) const;

  // Encodes a text of which only the ranges in `plain` (ascending, apart) may
  // have been written by a user: no special token has a byte in them. REQUIRES:
  // `text` is valid UTF-8.
  std::vector<TokenId> EncodeMixed(std::string_view text,
                                   absl::Span<const ByteRange> plain) const;

  // Returns the first special token that is spelled out in `text` at or after
  // `from`.
  std::optional<ByteRange> FindSpecial(std::string_view text,
                                       size_t from) const;

  // Returns valid UTF-8 for any ids; unknown ids are skipped. Ill-formed bytes
  // are repaired (utf8.h), so that a stream need not wait for later ones; where
  // bytes are tokens, `tokenizers` replaces all of a run that is not
  // well-formed.
  std::string Decode(absl::Span<const TokenId> ids, bool skip_special) const;

  // Most bytes of text that `num_tokens` tokens can encode. A longer text has
  // more tokens, unless it has bytes without a token or blanks that an added
  // token absorbs.
  int64_t MostBytesOf(int64_t num_tokens) const;

  // Returns one more than the largest id.
  int64_t vocab_size() const { return static_cast<int64_t>(tokens_.size()); }

  // See fingerprint.h.
  uint64_t fingerprint() const { return fingerprint_; }

  // Returns what belongs before a text that is not a chat: a BOS token, or
  // nothing.
  absl::Span<const TokenId> prefix() const { return prefix_; }

  // Returns the end-of-sequence tokens, ascending.
  absl::Span<const TokenId> eos_ids() const { return settings_.eos_ids; }

  // Returns a Jinja template; empty if the folder has none.
  std::string_view chat_template() const { return settings_.chat_template; }

  // See TokenizerSettings.
  const std::map<std::string, std::string>& named_tokens() const {
    return settings_.named_tokens;
  }

  // `token` is spelled as in tokenizer.json, e.g. "Ġthe" for " the".
  std::optional<TokenId> TokenToId(std::string_view token) const;

  // Returns the bytes of token `id`, perhaps part of a character; empty if
  // unknown.
  std::string_view BytesOf(TokenId id) const;

  bool IsSpecial(TokenId id) const;

  // Returns whether it is one of the added tokens, special or not.
  bool IsAdded(TokenId id) const;

 private:
  struct Token {
    std::string bytes;
    bool known = false;  // ids may have gaps
    bool special = false;
    bool added = false;
  };

  explicit Tokenizer(Bpe bpe) : bpe_(std::move(bpe)) {}

  // The steps of Create.
  absl::Status AddVocabulary(const TokenizerFile& file);
  absl::Status AddAddedTokens(const TokenizerFile& file);
  absl::Status AddSettings(TokenizerSettings settings);

  absl::StatusOr<Token*> ClaimId(TokenId id, std::string_view token);
  std::string TextOf(std::string_view token) const;
  bool IsKnown(TokenId id) const;
  // Called with a part of the text, and whether it is the first one.
  using Encoder = absl::FunctionRef<void(std::string_view, bool at_start)>;
  void EncodeNormalized(std::string_view part, size_t begin,
                        absl::Span<const ByteRange> plain, Encoder encode,
                        std::vector<TokenId>& ids) const;
  bool SpellsSpecial(std::string_view part, size_t begin,
                     absl::Span<const ByteRange> plain) const;

  Bpe bpe_;
  Alphabet alphabet_ = Alphabet::kByteLevel;
  Normalizer normalizer_;
  Normalizer decoder_;  // of kCharacters
  bool byte_fallback_ = false;
  int32_t decoder_strip_ = 0;
  PreTokenizer pre_tokenizer_;
  AddedTokenMatcher first_matcher_;    // the tokens that are not normalized
  AddedTokenMatcher second_matcher_;   // the others, in the remaining text
  AddedTokenMatcher spelled_matcher_;  // the special ones, as they are spelled
  Vocabulary ids_;
  std::vector<Token> tokens_;  // [vocab_size], by id
  int64_t max_token_bytes_ = 0;
  TokenizerSettings settings_;
  std::vector<TokenId> prefix_;
  uint64_t fingerprint_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_TOKENIZER_H_
