#include "common/tokenizer/special_tokens.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"
#include "common/json/parse_json.h"
#include "common/tokenizer/tokenizer_file.h"
#include "common/tokenizer/tokenizer_settings.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kDecoder = "added_tokens_decoder";
constexpr const char* kExtra = "extra_special_tokens";
constexpr const char* kAdditional = "additional_special_tokens";  // older name
// The names, in the order in which tokens are added.
constexpr std::array<const char*, 7> kNames = {
    "bos_token", "eos_token", "unk_token", "sep_token",
    "pad_token", "cls_token", "mask_token"};

// A token of these files. A property that is not stated is nullopt: what it is
// then depends on whether the token turns out to be special.
struct StatedToken {
  AddedToken token;
  std::optional<bool> normalized;

  AddedToken Resolved() const {
    AddedToken resolved = token;
    resolved.normalized = normalized.value_or(!token.special);
    return resolved;
  }
};

// "<s>", which is special, or {"content": "<s>", ...}. always_special: so is
// the latter, whatever it says.
absl::StatusOr<StatedToken> ReadToken(const JsonValue& value,
                                      bool always_special) {
  StatedToken read;
  if (!value.json().is_object()) {
    read.token.special = true;
    ASSIGN_OR_RETURN(read.token.content, value.Text());
    return read;
  }
  ASSIGN_OR_RETURN(const JsonValue content, value.Member("content"));
  ASSIGN_OR_RETURN(read.token.content, content.Text());
  ASSIGN_OR_RETURN(read.token.special, value.BoolOr("special", false));
  read.token.special |= always_special;
  ASSIGN_OR_RETURN(read.token.single_word, value.BoolOr("single_word", false));
  ASSIGN_OR_RETURN(read.token.left_blanks, value.BoolOr("lstrip", false));
  ASSIGN_OR_RETURN(read.token.right_blanks, value.BoolOr("rstrip", false));
  if (value.Has("normalized")) {
    ASSIGN_OR_RETURN(read.normalized, value.BoolOr("normalized", false));
  }
  return read;
}

// The three files, read in this order. A token that stands in several is what
// by_id_ says of it.
class TokenFiles {
 public:
  explicit TokenFiles(absl::Span<const AddedToken> own) : own_(own) {}

  absl::Status ReadConfig(const JsonValue& config) {
    has_decoder_ = config.Has(kDecoder);
    if (has_decoder_) {
      ASSIGN_OR_RETURN(const JsonValue decoder, config.Member(kDecoder));
      RETURN_IF_ERROR(ReadDecoder(decoder));
    }
    RETURN_IF_ERROR(ReadNames(config, /*always_special=*/false));
    for (const char* list : {kExtra, kAdditional}) {
      if (extra_.empty()) RETURN_IF_ERROR(ReadList(config, list, false));
    }
    return absl::OkStatus();
  }

  // Returns whether special_tokens_map.json and added_tokens.json count.
  bool wants_legacy_files() const { return !has_decoder_; }

  absl::Status ReadMap(const JsonValue& map) {
    RETURN_IF_ERROR(ReadNames(map, /*always_special=*/true));
    RETURN_IF_ERROR(ReadList(map, kExtra, true));
    return extra_.empty() ? ReadList(map, kAdditional, true) : absl::OkStatus();
  }

  // {"<extra>": 32000, ...}
  absl::Status ReadAddedTokens(const JsonValue& added) {
    std::set<std::string> special;
    for (const char* name : kNames) {
      if (const auto at = named_.find(name); at != named_.end()) {
        special.insert(at->second.token.content);
      }
    }
    for (const StatedToken& token : extra_) special.insert(token.token.content);
    ASSIGN_OR_RETURN(const std::vector<std::string> texts, added.MemberNames());
    for (const std::string& text : texts) {
      ASSIGN_OR_RETURN(const JsonValue field, added.Member(text));
      ASSIGN_OR_RETURN(const int64_t id, field.Integer(0, kMaxTokenId));
      const bool is_special = special.contains(text);
      by_id_[id] = {.token = {.content = text, .special = is_special},
                    .normalized = !is_special};
    }
    return absl::OkStatus();
  }

  SpecialTokens Finish() && {
    if (!has_decoder_) {
      for (const AddedToken& token : own_) {
        by_id_[token.id] = {.token = token, .normalized = token.normalized};
      }
    }
    SpecialTokens result;
    std::set<std::string> known;  // need not be added
    for (const AddedToken& token : own_) known.insert(token.content);
    std::set<std::string> named;
    for (const auto& [name, token] : named_) {
      result.named[name] = token.token.content;
      named.insert(token.token.content);
    }
    for (auto& [id, stated] : by_id_) {
      stated.token.special |= named.contains(stated.token.content);
      result.added.push_back(stated.Resolved());
      known.insert(stated.token.content);
    }
    const auto add = [&](StatedToken stated) {
      if (!known.insert(stated.token.content).second) return;
      stated.token.special |= named.contains(stated.token.content);
      result.added.push_back(stated.Resolved());
    };
    for (const char* name : kNames) {
      if (const auto at = named_.find(name); at != named_.end())
        add(at->second);
    }
    for (const auto& [name, token] : named_) add(token);
    for (const StatedToken& token : extra_) add(token);
    return result;
  }

 private:
  // {"0": {"content": "<s>", ...}, ...}
  absl::Status ReadDecoder(const JsonValue& decoder) {
    ASSIGN_OR_RETURN(const std::vector<std::string> ids, decoder.MemberNames());
    for (const std::string& text : ids) {
      ASSIGN_OR_RETURN(const JsonValue entry, decoder.Member(text));
      int64_t id = 0;
      if (!absl::SimpleAtoi(text, &id) || id < 0 || id > kMaxTokenId) {
        return entry.Error(
            absl::StrCat("its name must be an id in 0 .. ", kMaxTokenId));
      }
      if (!entry.json().is_object()) return entry.Error("must be an object");
      ASSIGN_OR_RETURN(by_id_[id], ReadToken(entry, /*always_special=*/false));
    }
    return absl::OkStatus();
  }

  // Reads the fields "..._token".
  absl::Status ReadNames(const JsonValue& fields, bool always_special) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     fields.MemberNames());
    for (const std::string& name : names) {
      if (!fields.Has(name) || !absl::EndsWith(name, "_token")) continue;
      ASSIGN_OR_RETURN(const JsonValue field, fields.Member(name));
      const bool standard =
          std::find(kNames.begin(), kNames.end(), name) != kNames.end();
      // Such as "add_bos_token": true.
      const json& value = field.json();
      if (!standard && !value.is_string() && !value.is_object()) continue;
      ASSIGN_OR_RETURN(named_[name], ReadToken(field, always_special));
    }
    return absl::OkStatus();
  }

  // More special tokens: a list, or an object with the names of each.
  absl::Status ReadList(const JsonValue& fields, const char* name,
                        bool always_special) {
    if (!fields.Has(name)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const JsonValue list, fields.Member(name));
    if (list.json().is_object()) {
      ASSIGN_OR_RETURN(const std::vector<std::string> names,
                       list.MemberNames());
      for (const std::string& key : names) {
        ASSIGN_OR_RETURN(const JsonValue field, list.Member(key));
        ASSIGN_OR_RETURN(named_[key], ReadToken(field, always_special));
      }
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::vector<JsonValue> items, list.Items());
    for (const JsonValue& item : items) {
      ASSIGN_OR_RETURN(extra_.emplace_back(), ReadToken(item, always_special));
    }
    return absl::OkStatus();
  }

  const absl::Span<const AddedToken> own_;
  bool has_decoder_ = false;
  std::map<int64_t, StatedToken> by_id_;
  std::map<std::string, StatedToken> named_;
  std::vector<StatedToken> extra_;
};

// Calls `read` with the file, if it is there.
template <typename Read>
absl::Status IfThere(const fs::path& path, Read read) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  ASSIGN_OR_RETURN(const json parsed, ParseJsonObject(*text, path.string()));
  return read(JsonValue(parsed, path.string()));
}

}  // namespace

absl::StatusOr<SpecialTokens> ReadSpecialTokens(
    const fs::path& folder, absl::Span<const AddedToken> own) {
  TokenFiles files(own);
  RETURN_IF_ERROR(
      IfThere(folder / "tokenizer_config.json",
              [&](const JsonValue& file) { return files.ReadConfig(file); }));
  if (files.wants_legacy_files()) {
    RETURN_IF_ERROR(
        IfThere(folder / "special_tokens_map.json",
                [&](const JsonValue& file) { return files.ReadMap(file); }));
    RETURN_IF_ERROR(IfThere(
        folder / "added_tokens.json",
        [&](const JsonValue& file) { return files.ReadAddedTokens(file); }));
  }
  return std::move(files).Finish();
}

}  // namespace espalier
