#include "common/tokenizer/tokenizer_settings.h"

#include <cstdint>
#include <fstream>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/json_object.h"

namespace espalier {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr uintmax_t kMaxFileBytes = uintmax_t{256} << 20;

absl::Status ReadEosIds(const JsonObject& config, TokenizerSettings& settings) {
  const json* field = config.Find("eos_token_id");
  if (field == nullptr) return absl::OkStatus();
  const json ids = field->is_array() ? *field : json::array({*field});
  for (const json& id : ids) {
    if (!id.is_number_integer() || id < 0 ||
        id > std::numeric_limits<TokenId>::max()) {
      return WrongType(config.PathOf("eos_token_id"),
                       "a token id or an array of them", *field);
    }
    settings.eos_ids.push_back(id.get<TokenId>());
  }
  return absl::OkStatus();
}

absl::Status ReadTokenizerConfig(const JsonObject& config,
                                 TokenizerSettings& settings) {
  // Either "<eos>" or {"content": "<eos>", ...}.
  if (const json* eos = config.Find("eos_token"); eos && eos->is_object()) {
    ASSIGN_OR_RETURN(const JsonObject token, config.Object("eos_token"));
    ASSIGN_OR_RETURN(settings.eos_token, token.String("content"));
  } else {
    ASSIGN_OR_RETURN(settings.eos_token, config.String("eos_token"));
  }
  // Either the template or [{"name": ..., "template": ...}, ...].
  const json* named = config.Find("chat_template");
  if (named == nullptr || !named->is_array()) {
    ASSIGN_OR_RETURN(settings.chat_template, config.String("chat_template"));
    return absl::OkStatus();
  }
  for (const json& value : *named) {
    ASSIGN_OR_RETURN(
        const JsonObject entry,
        JsonObject::Of(value, config.PathOf("chat_template[...]")));
    ASSIGN_OR_RETURN(const std::string name, entry.String("name"));
    if (name != "default") continue;
    ASSIGN_OR_RETURN(settings.chat_template, entry.String("template"));
  }
  return absl::OkStatus();
}

using Reader = absl::Status (*)(const JsonObject&, TokenizerSettings&);

absl::Status ReadConfig(const fs::path& path, Reader reader,
                        TokenizerSettings& settings) {
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  const auto read = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const json parsed, ParseJson(*text));
    ASSIGN_OR_RETURN(const JsonObject document, JsonObject::Of(parsed, ""));
    return reader(document, settings);
  };
  return InFile(path, read());
}

}  // namespace

absl::StatusOr<TokenizerSettings> LoadTokenizerSettings(
    const fs::path& folder) {
  TokenizerSettings settings;
  RETURN_IF_ERROR(
      ReadConfig(folder / "generation_config.json", ReadEosIds, settings));
  RETURN_IF_ERROR(ReadConfig(folder / "config.json", ReadEosIds, settings));
  RETURN_IF_ERROR(ReadConfig(folder / "tokenizer_config.json",
                             ReadTokenizerConfig, settings));
  return settings;
}

absl::StatusOr<std::string> ReadTextFile(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  std::ifstream stream(path, std::ios::binary);
  if (error || !stream) {
    return absl::NotFoundError(
        absl::StrCat(path.string(), ": cannot be read as a file"));
  }
  if (size > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.string(), ": ", size, " bytes; the limit is ", kMaxFileBytes));
  }
  std::string text(size, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(size));
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

absl::Status InFile(const fs::path& path, absl::Status status) {
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(path.string(), ": ", std::string(status.message())));
}

}  // namespace espalier
