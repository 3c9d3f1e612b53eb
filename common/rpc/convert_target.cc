#include "common/rpc/convert_target.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/convert.h"
#include "common/rpc/convert_fields.h"
#include "common/speculation/request_errors.h"

namespace espalier {

v1::StructuredOutput ToProto(const GrammarSpec& grammar) {
  v1::StructuredOutput message;
  message.set_disable_any_whitespace(grammar.compact);
  switch (grammar.kind) {
    case GrammarSpec::Kind::kNone:
      break;
    case GrammarSpec::Kind::kJsonObject:
      message.set_json_object(true);
      break;
    case GrammarSpec::Kind::kJsonSchema:
      message.set_json_schema(grammar.text);
      break;
    case GrammarSpec::Kind::kRegex:
      message.set_regex(grammar.text);
      break;
    case GrammarSpec::Kind::kChoice:
      message.mutable_choice()->mutable_texts()->Add(grammar.choices.begin(),
                                                     grammar.choices.end());
      break;
    case GrammarSpec::Kind::kEbnf:
      message.set_grammar(grammar.text);
      break;
    case GrammarSpec::Kind::kStructuralTag:
      message.set_structural_tag(grammar.text);
      break;
  }
  return message;
}

absl::StatusOr<GrammarSpec> FromProto(const v1::StructuredOutput& message) {
  GrammarSpec grammar = {.compact = message.disable_any_whitespace()};
  const auto set = [&](GrammarSpec::Kind kind, const std::string& text) {
    grammar.kind = kind;
    grammar.text = text;
  };
  switch (message.constraint_case()) {
    case v1::StructuredOutput::kJsonSchema:
      set(GrammarSpec::Kind::kJsonSchema, message.json_schema());
      break;
    case v1::StructuredOutput::kRegex:
      set(GrammarSpec::Kind::kRegex, message.regex());
      break;
    case v1::StructuredOutput::kChoice:
      grammar.kind = GrammarSpec::Kind::kChoice;
      grammar.choices = {message.choice().texts().begin(),
                         message.choice().texts().end()};
      break;
    case v1::StructuredOutput::kGrammar:
      set(GrammarSpec::Kind::kEbnf, message.grammar());
      break;
    case v1::StructuredOutput::kStructuralTag:
      set(GrammarSpec::Kind::kStructuralTag, message.structural_tag());
      break;
    case v1::StructuredOutput::kJsonObject:
      grammar.kind = GrammarSpec::Kind::kJsonObject;
      if (!message.json_object()) {
        return FieldError(FieldOf(grammar.kind), "false asks for nothing");
      }
      break;
    case v1::StructuredOutput::CONSTRAINT_NOT_SET:
      return FieldError("structured_output", "has no constraint");
  }
  RETURN_IF_ERROR(ValidateGrammarSpec(grammar));
  return grammar;
}

v1::LogitAdjustments ToProto(const LogitAdjustments& adjustments) {
  v1::LogitAdjustments message;
  message.set_prompt_length(static_cast<uint64_t>(adjustments.prompt_length));
  for (const std::vector<TokenId>& word : adjustments.bad_words) {
    message.add_bad_words()->mutable_tokens()->Add(word.begin(), word.end());
  }
  message.set_min_tokens(static_cast<uint64_t>(adjustments.min_tokens));
  message.mutable_early_stops()->Add(adjustments.early_stops.begin(),
                                     adjustments.early_stops.end());
  for (const auto& [token, value] : adjustments.bias) {
    message.add_bias_tokens(static_cast<uint32_t>(token));
    message.add_bias(value);
  }
  message.set_repetition_penalty(adjustments.repetition_penalty);
  message.set_frequency_penalty(adjustments.frequency_penalty);
  message.set_presence_penalty(adjustments.presence_penalty);
  if (adjustments.grammar.any()) {
    *message.mutable_grammar() = ToProto(adjustments.grammar);
  }
  return message;
}

absl::StatusOr<LogitAdjustments> FromProto(
    const v1::LogitAdjustments& message) {
  RETURN_IF_ERROR(CheckAtMost("adjustments.prompt_length",
                              message.prompt_length(), kMaxInt32));
  RETURN_IF_ERROR(
      CheckAtMost("adjustments.min_tokens", message.min_tokens(), kMaxInt32));
  LogitAdjustments adjustments = {
      .prompt_length = static_cast<int64_t>(message.prompt_length()),
      .min_tokens = static_cast<int64_t>(message.min_tokens()),
      .repetition_penalty = message.repetition_penalty(),
      .frequency_penalty = message.frequency_penalty(),
      .presence_penalty = message.presence_penalty()};
  if (message.has_grammar()) {
    ASSIGN_OR_RETURN(adjustments.grammar, FromProto(message.grammar()));
  }
  for (const v1::LogitAdjustments::Word& word : message.bad_words()) {
    ASSIGN_OR_RETURN(adjustments.bad_words.emplace_back(),
                     Int32Column("adjustments.bad_words", word.tokens()));
  }
  ASSIGN_OR_RETURN(
      adjustments.early_stops,
      Int32Column("adjustments.early_stops", message.early_stops()));
  ASSIGN_OR_RETURN(
      const std::vector<TokenId> tokens,
      Int32Column("adjustments.bias_tokens", message.bias_tokens()));
  if (message.bias_size() != message.bias_tokens_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "adjustments: ", message.bias_tokens_size(), " bias_tokens, but ",
        message.bias_size(), " values of bias"));
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    adjustments.bias.emplace_back(tokens[i], message.bias(static_cast<int>(i)));
  }
  return adjustments;
}

v1::LogprobRequest ToProto(const LogprobRequest& request) {
  v1::LogprobRequest message;
  if (request.emitted) {
    message.set_emitted(static_cast<uint32_t>(*request.emitted));
  }
  if (request.prompt) {
    message.set_prompt(static_cast<uint32_t>(*request.prompt));
  }
  return message;
}

absl::StatusOr<LogprobRequest> FromProto(const v1::LogprobRequest& message) {
  LogprobRequest request;
  RETURN_IF_ERROR(CheckAtMost("logprobs.emitted", message.emitted(),
                              uint64_t{kMaxTopLogprobs}));
  RETURN_IF_ERROR(CheckAtMost("logprobs.prompt", message.prompt(),
                              uint64_t{kMaxTopLogprobs}));
  if (message.has_emitted()) {
    request.emitted = static_cast<int32_t>(message.emitted());
  }
  if (message.has_prompt()) {
    request.prompt = static_cast<int32_t>(message.prompt());
  }
  return request;
}

v1::LogprobRows ToProto(const LogprobRows& rows) {
  v1::LogprobRows message;
  message.set_top(static_cast<uint32_t>(rows.top));
  message.mutable_chosen()->Add(rows.chosen.begin(), rows.chosen.end());
  message.mutable_top_token()->Add(rows.top_tokens.begin(),
                                   rows.top_tokens.end());
  message.mutable_top_logprob()->Add(rows.top_logprobs.begin(),
                                     rows.top_logprobs.end());
  return message;
}

absl::StatusOr<LogprobRows> FromProto(const v1::LogprobRows& message) {
  RETURN_IF_ERROR(
      CheckAtMost("logprobs.top", message.top(), uint64_t{kMaxTopLogprobs}));
  LogprobRows rows = {
      .top = static_cast<int32_t>(message.top()),
      .chosen = {message.chosen().begin(), message.chosen().end()},
      .top_logprobs = {message.top_logprob().begin(),
                       message.top_logprob().end()}};
  ASSIGN_OR_RETURN(rows.top_tokens,
                   Int32Column("logprobs.top_token", message.top_token()));
  return rows;
}

v1::FeatureRequest ToProto(const FeatureRequest& request) {
  v1::FeatureRequest message;
  ToProto(request.taps, *message.mutable_after_layers());
  message.set_first_position(static_cast<uint64_t>(request.first_position));
  message.set_deferred(request.deferred);
  for (const std::vector<int32_t>& taps : request.store) {
    ToProto(taps,
            *message.mutable_store()->add_contracts()->mutable_after_layers());
  }
  return message;
}

absl::StatusOr<FeatureRequest> FromProto(const v1::FeatureRequest& message) {
  RETURN_IF_ERROR(CheckAtMost("features.first_position",
                              message.first_position(), kMaxInt32));
  FeatureRequest request = {
      .first_position = static_cast<int64_t>(message.first_position()),
      .deferred = message.deferred()};
  ASSIGN_OR_RETURN(request.taps, Int32Column("features.after_layers",
                                             message.after_layers()));
  const v1::FeatureStoreRequest& store = message.store();
  RETURN_IF_ERROR(CheckAtMost("features.store.contracts: entries",
                              store.contracts_size(), kMaxStoreContracts));
  for (const v1::FeatureStoreRequest::Taps& taps : store.contracts()) {
    ASSIGN_OR_RETURN(request.store.emplace_back(),
                     Int32Column("features.store.contracts.after_layers",
                                 taps.after_layers()));
  }
  return request;
}

}  // namespace espalier
