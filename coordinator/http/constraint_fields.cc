// How a request's output is held to a form.
#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/json/ordered_json.h"
#include "common/speculation/request_errors.h"
#include "coordinator/http/generation_fields.h"

namespace espalier::coordinator {
namespace {

// The constraint that `field` sets, as `own` of our own API. FieldError:
// another field has set one.
absl::StatusOr<v1::StructuredOutput*> NewConstraint(absl::string_view field,
                                                    absl::string_view own,
                                                    ApiRequest& out) {
  v1::StructuredOutput& constraint = *out.generate.mutable_structured_output();
  if (constraint.constraint_case() ==
      v1::StructuredOutput::CONSTRAINT_NOT_SET) {
    out.names.emplace_back(absl::StrCat("structured_output.", own), field);
    return &constraint;
  }
  return FieldError(field, "the output is already held to another form");
}

// A text, or what is to be written as one.
std::string AsText(const Json& json) {
  return json.is_string() ? json.get<std::string>() : ToText(json);
}

absl::Status SetSchema(absl::string_view field, const Json& schema,
                       ApiRequest& out) {
  ASSIGN_OR_RETURN(auto* constraint, NewConstraint(field, "json_schema", out));
  constraint->set_json_schema(AsText(schema));
  return absl::OkStatus();
}

absl::Status SetAnyObject(absl::string_view field, ApiRequest& out) {
  ASSIGN_OR_RETURN(auto* constraint, NewConstraint(field, "json_object", out));
  constraint->set_json_object(true);
  return absl::OkStatus();
}

absl::Status SetRegex(absl::string_view field, const Json& value,
                      ApiRequest& out) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(field, value));
  ASSIGN_OR_RETURN(auto* constraint, NewConstraint(field, "regex", out));
  constraint->set_regex(text);
  return absl::OkStatus();
}

absl::Status SetGrammar(absl::string_view field, const Json& value,
                        ApiRequest& out) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(field, value));
  ASSIGN_OR_RETURN(auto* constraint, NewConstraint(field, "grammar", out));
  constraint->set_grammar(text);
  return absl::OkStatus();
}

absl::Status SetChoice(absl::string_view field, const Json& value,
                       ApiRequest& out) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   ReadTexts(field, value));
  ASSIGN_OR_RETURN(auto* constraint, NewConstraint(field, "choice", out));
  constraint->mutable_choice()->mutable_texts()->Assign(texts.begin(),
                                                        texts.end());
  return absl::OkStatus();
}

absl::Status SetStructuralTag(absl::string_view field, const Json& value,
                              ApiRequest& out) {
  ASSIGN_OR_RETURN(auto* constraint,
                   NewConstraint(field, "structural_tag", out));
  constraint->set_structural_tag(AsText(value));
  return absl::OkStatus();
}

absl::Status StructuredOutput(const std::string& name, const Json& value,
                              ApiRequest& out) {
  const std::string field =
      absl::StrCat("structured_outputs.", Printable(name, 64));
  if (name == "json") return SetSchema(field, value, out);
  if (name == "regex") return SetRegex(field, value, out);
  if (name == "choice") return SetChoice(field, value, out);
  if (name == "grammar") return SetGrammar(field, value, out);
  if (name == "structural_tag") return SetStructuralTag(field, value, out);
  if (name == "json_object") {
    ASSIGN_OR_RETURN(const bool wanted, ReadBool(field, value));
    return wanted ? SetAnyObject(field, out) : absl::OkStatus();
  }
  if (name == "disable_any_whitespace") {
    ASSIGN_OR_RETURN(const bool compact, ReadBool(field, value));
    out.generate.mutable_structured_output()->set_disable_any_whitespace(
        compact);
    return absl::OkStatus();
  }
  return FieldError(field, "this server does not know the field");
}

absl::Status StructuredOutputs(absl::string_view name, const Json& value,
                               ApiRequest& out) {
  if (!value.is_object()) return FieldError(name, "must be an object");
  for (const auto& [key, part] : value.items()) {
    if (!part.is_null()) RETURN_IF_ERROR(StructuredOutput(key, part, out));
  }
  return absl::OkStatus();
}

constexpr Field kConstraintFields[] = {
    {"response_format", ReadResponseFormat,
     "text, json_object, json_schema, structural_tag"},
    {"structured_outputs", StructuredOutputs,
     "json, regex, choice, grammar, json_object, structural_tag, "
     "disable_any_whitespace"},
    {"guided_json", SetSchema, "a JSON schema"},
    {"guided_regex", SetRegex, "a regular expression"},
    {"guided_choice", SetChoice, "a list of texts"},
    {"guided_grammar", SetGrammar, "a grammar in EBNF"},
    {"guided_decoding_backend", nullptr, "the server has one backend"},
    {"guided_whitespace_pattern", nullptr,
     "is not supported; see structured_outputs.disable_any_whitespace"},
};

}  // namespace

FieldTable ConstraintFields() { return kConstraintFields; }

absl::Status ReadResponseFormat(absl::string_view field, const Json& format,
                                ApiRequest& out) {
  const Json* type = Find(format, "type");
  if (type == nullptr) return FieldError(field, "must have a type");
  ASSIGN_OR_RETURN(const std::string name,
                   ReadText(absl::StrCat(field, ".type"), *type));
  if (name == "text") return absl::OkStatus();
  if (name == "json_object") return SetAnyObject(field, out);
  if (name == "structural_tag") return SetStructuralTag(field, format, out);
  if (name != "json_schema") {
    return FieldError(absl::StrCat(field, ".type"),
                      absl::StrCat("\"", Printable(name, 64),
                                   "\" is not one of text, json_object, "
                                   "json_schema, structural_tag"));
  }
  const Json* outer = Find(format, "json_schema");
  const Json* schema = outer == nullptr ? nullptr : Find(*outer, "schema");
  const std::string path = absl::StrCat(field, ".json_schema.schema");
  if (schema == nullptr) return FieldError(path, "is missing");
  return SetSchema(path, *schema, out);
}

}  // namespace espalier::coordinator
