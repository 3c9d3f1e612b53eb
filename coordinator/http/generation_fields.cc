#include "coordinator/http/generation_fields.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/speculation/request_errors.h"

namespace espalier::coordinator {
namespace {

constexpr int64_t kMaxUint32 = std::numeric_limits<uint32_t>::max();
constexpr char kNoEffect[] = "accepted; changes nothing here";

// Rows that set a field of our own API with the same meaning.
using Request = v1::GenerateRequest;

template <void (Request::*set)(float)>
absl::Status SetFloat(absl::string_view name, const Json& value,
                      ApiRequest& out) {
  ASSIGN_OR_RETURN(const double number, ReadNumber(name, value));
  (out.generate.*set)(static_cast<float>(number));
  return absl::OkStatus();
}

template <void (Request::*set)(uint32_t)>
absl::Status SetCount(absl::string_view name, const Json& value,
                      ApiRequest& out) {
  ASSIGN_OR_RETURN(const int64_t count,
                   ReadInteger(name, value, 0, kMaxUint32));
  (out.generate.*set)(static_cast<uint32_t>(count));
  return absl::OkStatus();
}

template <void (Request::*set)(bool)>
absl::Status SetFlag(absl::string_view name, const Json& value,
                     ApiRequest& out) {
  ASSIGN_OR_RETURN(const bool flag, ReadBool(name, value));
  (out.generate.*set)(flag);
  return absl::OkStatus();
}

absl::Status SetTexts(absl::string_view name, const Json& value,
                      google::protobuf::RepeatedPtrField<std::string>& out) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   ReadTexts(name, value));
  out.Assign(texts.begin(), texts.end());
  return absl::OkStatus();
}

absl::Status TopK(absl::string_view name, const Json& value, ApiRequest& out) {
  ASSIGN_OR_RETURN(const int64_t k, ReadInteger(name, value, -1, kMaxUint32));
  out.generate.set_top_k(static_cast<uint32_t>(std::max<int64_t>(k, 0)));
  return absl::OkStatus();
}

// A negative seed is the unsigned one with the same bits.
absl::Status Seed(absl::string_view name, const Json& value, ApiRequest& out) {
  if (value.is_number_unsigned()) {
    out.generate.set_seed(value.get<uint64_t>());
    return absl::OkStatus();
  }
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  ASSIGN_OR_RETURN(const int64_t seed, ReadInteger(name, value, kMin, kMax));
  out.generate.set_seed(static_cast<uint64_t>(seed));
  return absl::OkStatus();
}

absl::Status LogitBias(absl::string_view name, const Json& value,
                       ApiRequest& out) {
  if (!value.is_object()) return FieldError(name, "must be an object");
  for (const auto& [id, bias] : value.items()) {
    uint32_t token = 0;
    if (!absl::SimpleAtoi(id, &token)) {
      return FieldError(
          name, absl::StrCat("\"", Printable(id, 64), "\" is no token id"));
    }
    ASSIGN_OR_RETURN(const double number, ReadNumber(name, bias));
    (*out.generate.mutable_logit_bias())[token] = static_cast<float>(number);
  }
  return absl::OkStatus();
}

absl::Status StopTokens(absl::string_view name, const Json& value,
                        ApiRequest& out) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> tokens, ReadTokens(name, value));
  out.generate.mutable_stop_token_ids()->Assign(tokens.begin(), tokens.end());
  return absl::OkStatus();
}

absl::Status CacheSalt(absl::string_view name, const Json& value,
                       ApiRequest& out) {
  ASSIGN_OR_RETURN(const std::string salt, ReadText(name, value));
  out.generate.set_cache_salt(salt);
  return absl::OkStatus();
}

absl::Status Priority(absl::string_view name, const Json& value,
                      ApiRequest& out) {
  ASSIGN_OR_RETURN(const int64_t priority,
                   ReadInteger(name, value, std::numeric_limits<int32_t>::min(),
                               std::numeric_limits<int32_t>::max()));
  out.generate.set_priority(static_cast<int32_t>(priority));
  return absl::OkStatus();
}

absl::Status Stream(absl::string_view name, const Json& value,
                    ApiRequest& out) {
  ASSIGN_OR_RETURN(out.stream, ReadBool(name, value));
  return absl::OkStatus();
}

absl::Status StreamOptions(absl::string_view name, const Json& value,
                           ApiRequest& out) {
  if (!value.is_object()) return FieldError(name, "must be an object");
  for (const auto& [key, option] : value.items()) {
    const std::string field = absl::StrCat(name, ".", Printable(key, 64));
    if (key == "include_usage") {
      ASSIGN_OR_RETURN(out.include_usage, ReadBool(field, option));
    } else if (key != "include_obfuscation") {
      return FieldError(field, "this server does not know the field");
    } else {
      ASSIGN_OR_RETURN(const bool padded, ReadBool(field, option));
      if (padded) return FieldError(field, "is not supported");
    }
  }
  return absl::OkStatus();
}

// The options of v1::SpeculationOptions.
absl::Status ReadSpeculation(const std::string& name, const Json& value,
                             v1::SpeculationOptions& out) {
  const std::string field = absl::StrCat("espalier.", Printable(name, 64));
  if (name == "enabled") {
    ASSIGN_OR_RETURN(const bool enabled, ReadBool(field, value));
    out.set_enabled(enabled);
  } else if (name == "max_nodes" || name == "max_depth") {
    ASSIGN_OR_RETURN(const int64_t count,
                     ReadInteger(field, value, 0, kMaxUint32));
    name == "max_nodes" ? out.set_max_nodes(static_cast<uint32_t>(count))
                        : out.set_max_depth(static_cast<uint32_t>(count));
  } else if (name == "drafters") {
    return SetTexts(field, value, *out.mutable_drafters());
  } else if (name == "strategy" || name == "rule") {
    ASSIGN_OR_RETURN(const std::string text, ReadText(field, value));
    name == "strategy" ? out.set_strategy(text) : out.set_rule(text);
  } else {
    return FieldError(field,
                      "is not one of enabled, max_nodes, max_depth, drafters, "
                      "strategy, rule");
  }
  return absl::OkStatus();
}

absl::Status Espalier(absl::string_view name, const Json& value,
                      ApiRequest& out) {
  if (!value.is_object()) return FieldError(name, "must be an object");
  for (const auto& [key, option] : value.items()) {
    RETURN_IF_ERROR(
        ReadSpeculation(key, option, *out.generate.mutable_speculation()));
  }
  return absl::OkStatus();
}

absl::Status ReturnTokenIds(absl::string_view name, const Json& value,
                            ApiRequest& out) {
  ASSIGN_OR_RETURN(out.return_token_ids, ReadBool(name, value));
  return absl::OkStatus();
}

absl::Status PromptLogprobCount(absl::string_view name, const Json& value,
                                ApiRequest& out) {
  out.prompt_logprobs = true;
  return SetCount<&Request::set_prompt_logprobs>(name, value, out);
}

absl::Status Stop(absl::string_view name, const Json& value, ApiRequest& out) {
  return SetTexts(name, value, *out.generate.mutable_stop());
}
absl::Status BadWords(absl::string_view name, const Json& value,
                      ApiRequest& out) {
  return SetTexts(name, value, *out.generate.mutable_bad_words());
}

absl::Status SkipSpecialTokens(absl::string_view name, const Json& value,
                               ApiRequest& out) {
  ASSIGN_OR_RETURN(const bool skip, ReadBool(name, value));
  out.generate.set_show_special_tokens(!skip);
  return absl::OkStatus();
}

constexpr Field kGenerationFields[] = {
    {"model", FollowModel, "the name of the served model, or absent"},
    {"temperature", SetFloat<&Request::set_temperature>,
     "0 .. 100, default 1; below 0.01 as vLLM has it"},
    {"top_p", SetFloat<&Request::set_top_p>, "as in our own API"},
    {"top_k", TopK, "as in our own API; -1: all"},
    {"min_p", SetFloat<&Request::set_min_p>, "as in our own API"},
    {"typical_p", SetFloat<&Request::set_typical_p>, "as in our own API"},
    {"repetition_penalty", SetFloat<&Request::set_repetition_penalty>,
     "as in our own API"},
    {"frequency_penalty", SetFloat<&Request::set_frequency_penalty>,
     "as in our own API"},
    {"presence_penalty", SetFloat<&Request::set_presence_penalty>,
     "as in our own API"},
    {"seed", Seed, "64 bits, signed or unsigned"},
    {"n", SetCount<&Request::set_n>,
     "1 .. 32; output i has the seed `seed` + i"},
    {"stop", Stop, "a text or a list of at most 32"},
    {"max_tokens", ReadMaxTokens,
     "at least 1; default: chat as many as fit, completions 16"},
    {"min_tokens", SetCount<&Request::set_min_tokens>, "as in our own API"},
    {"logit_bias", LogitBias, "token ids, -100 .. 100 each"},
    {"stop_token_ids", StopTokens, "at most 64"},
    {"bad_words", BadWords, "at most 64"},
    {"ignore_eos", SetFlag<&Request::set_ignore_eos>, "as in our own API"},
    {"include_stop_str_in_output",
     SetFlag<&Request::set_include_stop_str_in_output>, "as in our own API"},
    {"prompt_logprobs", PromptLogprobCount, "0 .. 20 a position"},
    {"cache_salt", CacheSalt, "as in our own API"},
    {"priority", Priority, "lower is earlier, as far as the server allows"},
    {"stream", Stream, "server-sent events"},
    {"stream_options", StreamOptions, "include_usage"},
    {"espalier", Espalier,
     "enabled, max_nodes, max_depth, drafters, strategy, rule: see "
     "SpeculationOptions"},
    {"return_token_ids", ReturnTokenIds, "token_ids in each choice"},
    {"skip_special_tokens", SkipSpecialTokens,
     "default true; the token that ends an output never has a text"},
    {"user", Accept, kNoEffect},
    {"metadata", Accept, kNoEffect},
    {"store", Accept, "accepted; nothing is stored"},
    {"service_tier", Accept, kNoEffect},
    {"safety_identifier", Accept, kNoEffect},
    {"prompt_cache_key", Accept, kNoEffect},
    {"prompt_cache_retention", Accept, kNoEffect},
    {"prompt_cache_options", Accept, kNoEffect},
    {"use_beam_search", nullptr, "beam search is not supported"},
    {"length_penalty", nullptr, "beam search is not supported"},
    {"truncate_prompt_tokens", nullptr, "is not supported"},
    {"allowed_token_ids", nullptr, "is not supported; see logit_bias"},
    {"logits_processors", nullptr, "is not supported"},
    {"spaces_between_special_tokens", Accept, kNoEffect},
    {"request_id", nullptr, "is the server's choice"},
};

}  // namespace

FieldTable GenerationFields() { return kGenerationFields; }

absl::Status ReadMaxTokens(absl::string_view name, const Json& value,
                           ApiRequest& out) {
  ASSIGN_OR_RETURN(const int64_t tokens,
                   ReadInteger(name, value, 1, kMaxUint32));
  const bool differs =
      out.generate.has_max_tokens() && out.generate.max_tokens() != tokens;
  if (differs) {
    return FieldError(name, "max_tokens and max_completion_tokens differ");
  }
  out.generate.set_max_tokens(static_cast<uint32_t>(tokens));
  return absl::OkStatus();
}

void SetTemperature(ApiRequest& out) {
  constexpr float kGreedy = 1e-5f;
  constexpr float kMin = 0.01f;
  if (!out.generate.has_temperature()) out.generate.set_temperature(1);
  const float asked = out.generate.temperature();
  if (asked <= 0 || asked >= kMin) return;
  const float used = asked < kGreedy ? 0 : kMin;
  out.generate.set_temperature(used);
  out.warnings.push_back(
      absl::StrCat("temperature: ", asked, " was taken as ", used));
}

}  // namespace espalier::coordinator
