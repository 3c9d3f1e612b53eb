#include "coordinator/cli/text/structured_flags.h"

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "coordinator/cli/input_file.h"

namespace espalier::cli {
namespace {

// `value`, or the file that it names: a text of the field's kind contains
// `sign`, and a path seldom does.
absl::StatusOr<std::string> TextOrFile(const char* flag,
                                       const std::string& value,
                                       const char* sign, std::istream& in) {
  std::string text = value;
  if (!absl::StrContains(value, sign)) {
    ASSIGN_OR_RETURN(text, ReadInput(value, in));
  }
  if (RepairUtf8(text) == text) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": the text is not valid UTF-8"));
}

}  // namespace

void StructuredFlags::AddTo(FlagSet& flags) {
  flags.AddSwitch({"--json-object", "", "the answer is a JSON object"},
                  &json_object_);
  flags.Add(
      {"--json-schema", "SCHEMA|FILE", "the answer is JSON of this schema"},
      &json_schema_);
  flags.Add({"--regex", "REGEX", "the whole answer matches this"}, &regex_);
  flags.Add(
      {"--choice", "TEXT", "the answer is one of these texts; may be repeated"},
      &choice_);
  flags.Add({"--grammar", "EBNF|FILE", "the answer is what `root` derives"},
            &grammar_);
  flags.Add({"--structural-tag", "JSON|FILE",
             "free text with constrained parts, as xgrammar writes it"},
            &structural_tag_);
  flags.AddSwitch(
      {"--compact-json", "", "JSON in one line, with single spaces"},
      &compact_);
}

absl::Status StructuredFlags::Set(std::istream& in,
                                  v1::GenerateRequest& request) const {
  const int given = json_object_ + json_schema_.has_value() +
                    regex_.has_value() + !choice_.values.empty() +
                    grammar_.has_value() + structural_tag_.has_value();
  if (given == 0 && !compact_) return absl::OkStatus();
  if (given != 1) {
    return absl::InvalidArgumentError(
        "give exactly one of --json-object, --json-schema, --regex, --choice, "
        "--grammar, --structural-tag");
  }
  v1::StructuredOutput& output = *request.mutable_structured_output();
  output.set_disable_any_whitespace(compact_);
  if (json_object_) output.set_json_object(true);
  if (json_schema_) {
    ASSIGN_OR_RETURN(*output.mutable_json_schema(),
                     TextOrFile("--json-schema", *json_schema_, "{", in));
  }
  if (regex_) output.set_regex(*regex_);
  if (!choice_.values.empty()) {
    output.mutable_choice()->mutable_texts()->Assign(choice_.values.begin(),
                                                     choice_.values.end());
  }
  if (grammar_) {
    ASSIGN_OR_RETURN(*output.mutable_grammar(),
                     TextOrFile("--grammar", *grammar_, "::=", in));
  }
  if (structural_tag_) {
    ASSIGN_OR_RETURN(*output.mutable_structural_tag(),
                     TextOrFile("--structural-tag", *structural_tag_, "{", in));
  }
  return absl::OkStatus();
}

}  // namespace espalier::cli
