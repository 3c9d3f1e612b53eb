#include "common/grammar/structural_tag.h"

#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/grammar/ebnf_escapes.h"
#include "common/grammar/json_grammar.h"
#include "common/grammar/regex.h"
#include "common/grammar/schema_grammar.h"
#include "common/json/ordered_json.h"
#include "common/json/parse_json.h"

namespace espalier::grammar {
namespace {

using Json = OrderedJson;

absl::Status TagError(const std::string& path, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", problem));
}

class Rewriter {
 public:
  explicit Rewriter(bool compact) : compact_(compact) {}

  absl::Status Rewrite(Json& value, const std::string& path) {
    if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) {
        RETURN_IF_ERROR(Rewrite(value[i], absl::StrCat(path, "[", i, "]")));
      }
      return absl::OkStatus();
    }
    if (!value.is_object()) return absl::OkStatus();
    const Json type = value.value("type", Json());
    if (type == "json_schema") return RewriteSchema(value, path);
    if (type == "regex") return RewriteRegex(value, path);
    if (type == "grammar" && value.value("grammar", Json()).is_string()) {
      Json& ebnf = value["grammar"];
      ebnf = WithTwoDigitEscapes(ebnf.get<std::string>());
      return absl::OkStatus();
    }
    if (type == "qwen_xml_parameter") {
      return TagError(path, "qwen_xml_parameter is not supported");
    }
    for (auto& [name, member] : value.items()) {
      RETURN_IF_ERROR(
          Rewrite(member, absl::StrCat(path, path.empty() ? "" : ".",
                                       Printable(name, /*max_bytes=*/100))));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status RewriteSchema(Json& format, const std::string& path) {
    bool compact = compact_;
    for (const auto& [name, value] : format.items()) {
      const bool is_default = (name == "style" && value == "json") ||
                              (name == "any_order" && value == false) ||
                              (name == "excludes" && value == Json::array());
      if (name == "type" || name == "json_schema" || is_default ||
          value.is_null()) {
        continue;
      }
      if (name != "max_whitespace_cnt") {
        return TagError(absl::StrCat(path, ".", Printable(name, 100)),
                        "is not supported");
      }
      compact = true;  // which has one blank at most
    }
    const Json* schema = nullptr;
    if (const auto found = format.find("json_schema"); found != format.end()) {
      schema = &*found;
    }
    if (schema == nullptr) return TagError(path, "json_schema is missing");
    const absl::StatusOr<RuleSet> rules = SchemaGrammar(
        schema->is_string() ? schema->get<std::string>() : schema->dump(),
        compact);
    return Replace(rules, absl::StrCat(path, ".json_schema"), format);
  }

  absl::Status RewriteRegex(Json& format, const std::string& path) {
    const auto pattern = format.find("pattern");
    if (pattern == format.end() || !pattern->is_string()) {
      return TagError(path, "pattern must be a text");
    }
    for (const auto& [name, value] : format.items()) {
      if (name != "type" && name != "pattern" && !value.is_null()) {
        return TagError(absl::StrCat(path, ".", Printable(name, 100)),
                        "is not supported");
      }
    }
    const absl::StatusOr<Regex> regex =
        ParseRegex(pattern->get<std::string>(), RegexClasses::kJavaScript);
    const std::string field = absl::StrCat(path, ".pattern");
    if (!regex.ok()) return TagError(field, regex.status().message());
    return Replace(RuleSet{{regex->whole}}, field, format);
  }

  absl::Status Replace(const absl::StatusOr<RuleSet>& rules,
                       const std::string& path, Json& format) {
    if (!rules.ok()) return TagError(path, rules.status().message());
    automaton_ += rules->automaton();
    if (automaton_ >= kMaxAutomaton) {
      return TagError(
          path, absl::StrCat("with what is before it, its automaton would "
                             "have more than ",
                             kMaxAutomaton, " states"));
    }
    format = Json{{"type", "grammar"}, {"grammar", rules->ToEbnf()}};
    return absl::OkStatus();
  }

  const bool compact_;
  int64_t automaton_ = 0;
};

}  // namespace

absl::StatusOr<std::string> WithOwnGrammars(absl::string_view tag,
                                            bool compact) {
  RETURN_IF_ERROR(ParseJson({tag.data(), tag.size()}, "").status());
  Json json = ReadOrderedJson({tag.data(), tag.size()});
  RETURN_IF_ERROR(Rewriter(compact).Rewrite(json, ""));
  return ToText(json);
}

}  // namespace espalier::grammar
