#include "common/tokenizer/special_tokens.h"

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
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
  bool bare = false;  // only its text is stated
  // An object of tokenizer_config.json, whose text added_tokens.json does not
  // see.
  bool unseen = false;
  std::optional<bool> normalized;

  AddedToken Resolved() const {
    AddedToken resolved = token;
    resolved.normalized = normalized.value_or(!token.special);
    return resolved;
  }
  bool operator==(const StatedToken& other) const {
    return bare == other.bare && Resolved() == other.Resolved();
  }
};

// "<s>", which is special, or {"content": "<s>", ...}. always_special: so is
// the latter, whatever it says.
absl::StatusOr<StatedToken> ReadToken(const JsonValue& value,
                                      bool always_special) {
  StatedToken read;
  if (!value.json().is_object()) {
    read.token.special = true;
    read.bare = true;
    ASSIGN_OR_RETURN(read.token.content, value.Text());
    return read;
  }
  ASSIGN_OR_RETURN(const JsonValue content, value.Member("content"));
  ASSIGN_OR_RETURN(read.token.content, content.Text());
  ASSIGN_OR_RETURN(read.token.special, value.BoolOr("special", false));
  read.token.special |= always_special;
  read.unseen = !always_special;
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
      if (extra_.empty())
        RETURN_IF_ERROR(ReadList(config, list, false, extra_));
    }
    return absl::OkStatus();
  }

  // Returns whether special_tokens_map.json and added_tokens.json count.
  bool wants_legacy_files() const { return !has_decoder_; }

  absl::Status ReadMap(const JsonValue& map) {
    RETURN_IF_ERROR(ReadNames(map, /*always_special=*/true));
    RETURN_IF_ERROR(ReadList(map, kExtra, true, extra_));
    return extra_.empty() ? ReadList(map, kAdditional, true, additional_)
                          : absl::OkStatus();
  }

  // {"<extra>": 32000, ...}
  absl::Status ReadAddedTokens(const JsonValue& added) {
    std::set<std::string> special;
    const auto see = [&](const StatedToken& token) {
      if (!token.unseen) special.insert(token.token.content);
    };
    for (const char* name : kNames) {
      if (const auto at = named_.find(name); at != named_.end()) {
        see(at->second);
      }
    }
    for (const StatedToken& token : extra_) see(token);
    ASSIGN_OR_RETURN(const std::vector<std::string> texts, added.MemberNames());
    for (const std::string& text : texts) {
      ASSIGN_OR_RETURN(const JsonValue field, added.Member(text));
      ASSIGN_OR_RETURN(const int64_t id, field.Integer(0, kMaxTokenId));
      const bool is_special = special.contains(text);
      State(id, {.token = {.content = text, .special = is_special},
                 .normalized = !is_special});
    }
    return absl::OkStatus();
  }

  SpecialTokens Finish() && {
    if (!has_decoder_) {
      for (const AddedToken& token : own_) {
        State(token.id, {.token = token, .normalized = token.normalized});
      }
    }
    // Not added again: what tokenizer.json or an id of a file has, and what
    // was stated in the same way before.
    std::set<std::string> known;
    for (const AddedToken& token : own_) known.insert(token.content);
    std::vector<StatedToken> adding;
    for (const auto& [id, token] : by_id_) {
      adding.push_back(token);
      known.insert(token.token.content);
    }
    const auto add = [&](const StatedToken& token) {
      if (known.contains(token.token.content)) return;
      if (absl::c_linear_search(adding, token)) return;
      adding.push_back(token);
    };
    for (const char* name : kNames) {
      const auto at = named_.find(name);
      if (at == named_.end()) continue;
      const auto stated = by_content_.find(at->second.token.content);
      add(stated != by_content_.end() ? stated->second : at->second);
    }
    for (const auto& [name, token] : named_) {
      if (!absl::c_linear_search(kNames, name)) add(token);
    }
    for (const StatedToken& token : extra_) add(token);
    for (const StatedToken& token : additional_) add(token);
    return Named(adding);
  }

 private:
  void State(int64_t id, const StatedToken& token) {
    by_id_[id] = token;
    by_content_[token.token.content] = token;
  }

  // Returns `adding` with the names of named_. A token that has a name is
  // special.
  SpecialTokens Named(const std::vector<StatedToken>& adding) const {
    SpecialTokens result;
    std::set<std::string> named;
    for (const auto& [name, token] : named_) {
      result.named[name] = token.token.content;
      named.insert(token.token.content);
    }
    for (StatedToken token : adding) {
      token.token.special |= named.contains(token.token.content);
      result.added.push_back(token.Resolved());
    }
    return result;
  }

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
      ASSIGN_OR_RETURN(const StatedToken token,
                       ReadToken(entry, /*always_special=*/false));
      State(id, token);
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
      const bool standard = absl::c_linear_search(kNames, name);
      // Such as "add_bos_token": true.
      const json& value = field.json();
      if (!standard && !value.is_string() && !value.is_object()) continue;
      if (lasting_.contains(name)) continue;
      ASSIGN_OR_RETURN(named_[name], ReadToken(field, always_special));
      if (!standard && named_[name].bare) lasting_.insert(name);
    }
    return absl::OkStatus();
  }

  // Reads more special tokens: a list, or an object with the names of each.
  absl::Status ReadList(const JsonValue& fields, const char* name,
                        bool always_special, std::vector<StatedToken>& read) {
    if (!fields.Has(name)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const JsonValue list, fields.Member(name));
    if (list.json().is_object()) {
      ASSIGN_OR_RETURN(const std::vector<std::string> names,
                       list.MemberNames());
      for (const std::string& key : names) {
        ASSIGN_OR_RETURN(const JsonValue field, list.Member(key));
        ASSIGN_OR_RETURN(named_[key], ReadToken(field, always_special));
        lasting_.insert(key);
      }
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::vector<JsonValue> items, list.Items());
    for (const JsonValue& item : items) {
      ASSIGN_OR_RETURN(read.emplace_back(), ReadToken(item, always_special));
    }
    return absl::OkStatus();
  }

  const absl::Span<const AddedToken> own_;
  bool has_decoder_ = false;
  std::map<int64_t, StatedToken> by_id_;
  // The same, with those whose id another one took. A token with one of kNames
  // is what this says of it.
  std::map<std::string, StatedToken> by_content_;
  std::map<std::string, StatedToken> named_;
  // The names of named_ that are a model's own and that no later file's
  // "..._token" replaces.
  std::set<std::string> lasting_;
  std::vector<StatedToken> extra_;
  // Tokens of special_tokens_map.json under the older name, which
  // added_tokens.json does not see.
  std::vector<StatedToken> additional_;
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
