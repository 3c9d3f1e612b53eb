#include "common/model/files/tokenizer_artifacts.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/files/gguf_config.h"
#include "common/model/files/gguf_file.h"
#include "common/model/files/gguf_path.h"
#include "common/model/files/gguf_tokenizer.h"
#include "common/tokenizer/tokenizer_settings.h"
#include "common/tokenizer/write_tokenizer_file.h"
#include "nlohmann/json.hpp"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

absl::StatusOr<std::vector<TextFile>> OfFolder(const fs::path& folder) {
  struct Wanted {
    const char* name;
    bool required = false;
  };
  constexpr Wanted kWanted[] = {{.name = "tokenizer.json", .required = true},
                                {.name = "config.json", .required = true},
                                {.name = "tokenizer_config.json"},
                                {.name = "generation_config.json"},
                                {.name = "special_tokens_map.json"},
                                {.name = "added_tokens.json"},
                                {.name = "chat_template.jinja"}};
  std::vector<TextFile> files;
  for (const Wanted& wanted : kWanted) {
    absl::StatusOr<std::string> text = ReadTextFile(folder / wanted.name);
    if (text.ok()) {
      files.push_back({wanted.name, *std::move(text)});
    } else if (wanted.required || !absl::IsNotFound(text.status())) {
      return text.status();
    }
  }
  return files;
}

// Returns the spelling of a token that the metadata name; nullopt: they name
// none.
absl::StatusOr<std::optional<std::string>> TokenOf(const GgufFile& file,
                                                   std::string_view key) {
  const absl::StatusOr<int64_t> id = file.Get<int64_t>(key);
  if (absl::IsNotFound(id.status())) return std::nullopt;
  RETURN_IF_ERROR(id.status());
  ASSIGN_OR_RETURN(const auto tokens, file.Get<std::vector<std::string_view>>(
                                          "tokenizer.ggml.tokens"));
  if (*id < 0 || *id >= std::ssize(tokens)) {
    return file.Error(absl::InvalidArgumentError(
        absl::StrCat(std::string(key), " is ", *id, ", not a token")));
  }
  return std::string(tokens[*id]);
}

absl::StatusOr<std::string> TokenizerConfig(const GgufFile& file,
                                            int64_t max_positions) {
  json config = {{"add_prefix_space", false},
                 {"clean_up_tokenization_spaces", false},
                 {"model_max_length", max_positions},
                 {"tokenizer_class", "PreTrainedTokenizerFast"}};
  for (const auto& [name, key] :
       {std::pair{"bos_token", "tokenizer.ggml.bos_token_id"},
        {"eos_token", "tokenizer.ggml.eos_token_id"},
        {"pad_token", "tokenizer.ggml.padding_token_id"},
        {"unk_token", "tokenizer.ggml.unknown_token_id"}}) {
    ASSIGN_OR_RETURN(const std::optional<std::string> token,
                     TokenOf(file, key));
    if (token) config[name] = *token;
  }
  const auto jinja = file.Get<std::string_view>("tokenizer.chat_template");
  if (jinja.ok()) config["chat_template"] = std::string(*jinja);
  return config.dump();
}

// Names of the architectures that ReadGgufConfig knows.
std::string ClassOf(std::string_view architecture) {
  if (architecture == "qwen2") return "Qwen2ForCausalLM";
  if (architecture == "qwen3") return "Qwen3ForCausalLM";
  return "LlamaForCausalLM";
}

absl::StatusOr<std::vector<TextFile>> OfGguf(const GgufFile& file) {
  ASSIGN_OR_RETURN(const ModelConfig model, ReadGgufConfig(file));
  ASSIGN_OR_RETURN(const auto architecture,
                   file.Get<std::string_view>("general.architecture"));
  const json config = {{"architectures", {ClassOf(architecture)}},
                       {"model_type", std::string(architecture)},
                       {"vocab_size", model.vocab_size},
                       {"max_position_embeddings", model.max_positions},
                       {"eos_token_id", model.eos_ids}};
  ASSIGN_OR_RETURN(const TokenizerFile tokenizer, ReadGgufTokenizerFile(file));
  ASSIGN_OR_RETURN(const std::string settings,
                   TokenizerConfig(file, model.max_positions));
  return std::vector<TextFile>{
      {"tokenizer.json", WriteTokenizerFile(tokenizer)},
      {"config.json", config.dump()},
      {"tokenizer_config.json", settings},
      {"generation_config.json",
       json({{"eos_token_id", model.eos_ids}}).dump()}};
}

}  // namespace

absl::StatusOr<std::vector<TextFile>> TokenizerArtifacts(
    const std::string& path) {
  ASSIGN_OR_RETURN(const std::optional<std::string> gguf, GgufPathOf(path));
  if (!gguf.has_value()) return OfFolder(path);
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(*gguf));
  return OfGguf(file);
}

}  // namespace espalier
