#include "common/tokenizer/tokenizer_settings.h"

#include <cstdint>
#include <fstream>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"
#include "common/json/parse_json.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr char kTemplateFile[] = "chat_template.jinja";
constexpr uintmax_t kMaxFileBytes = uintmax_t{256} << 20;

// Reads one id, or a list of them.
absl::Status ReadEosIds(const JsonValue& config, TokenizerSettings& settings) {
  if (!config.Has("eos_token_id")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const JsonValue field, config.Member("eos_token_id"));
  std::vector<JsonValue> ids = {field};
  if (field.json().is_array()) {
    ASSIGN_OR_RETURN(ids, field.Items());
  }
  for (const JsonValue& id : ids) {
    ASSIGN_OR_RETURN(settings.eos_ids.emplace_back(),
                     id.Integer(0, std::numeric_limits<TokenId>::max()));
  }
  return absl::OkStatus();
}

// Either the template or [{"name": ..., "template": ...}, ...].
absl::StatusOr<std::string> ReadChatTemplate(const JsonValue& config) {
  if (!config.Has("chat_template")) return std::string();
  ASSIGN_OR_RETURN(const JsonValue field, config.Member("chat_template"));
  if (!field.json().is_array()) return field.Text();
  ASSIGN_OR_RETURN(const std::vector<JsonValue> entries, field.Items());
  for (const JsonValue& entry : entries) {
    ASSIGN_OR_RETURN(const std::string name, entry.TextOr("name", ""));
    if (name != "default") continue;
    ASSIGN_OR_RETURN(const JsonValue found, entry.Member("template"));
    return found.Text();
  }
  if (entries.empty()) return std::string();
  return field.Error("no template is named \"default\"");
}

absl::Status ReadTokenizerConfig(const JsonValue& config,
                                 TokenizerSettings& settings) {
  ASSIGN_OR_RETURN(settings.chat_template, ReadChatTemplate(config));
  return absl::OkStatus();
}

using Reader = absl::Status (*)(const JsonValue&, TokenizerSettings&);

absl::Status ReadConfig(const fs::path& path, Reader reader,
                        TokenizerSettings& settings) {
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  ASSIGN_OR_RETURN(const nlohmann::json config,
                   ParseJsonObject(*text, path.string()));
  return reader(JsonValue(config, path.string()), settings);
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
  // This is where transformers writes the template since version 4.47; it wins.
  absl::StatusOr<std::string> file = ReadTextFile(folder / kTemplateFile);
  if (file.ok()) {
    settings.chat_template = *std::move(file);
  } else if (!absl::IsNotFound(file.status())) {
    return file.status();
  }
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
}  // namespace espalier
