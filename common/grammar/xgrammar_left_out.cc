// xgrammar's readers of JSON schemas, regular expressions and Lark, which
// nothing reaches: these grammars are made in this folder (schema_grammar,
// regex), also within structural tags. Their files would be a quarter of
// xgrammar's compile time.

#include "json_schema_converter.h"
#include "lark_converter.h"
#include "regex_converter.h"
#include "support/logging.h"

namespace xgrammar {

// No name of a style is known.
std::optional<JSONFormat> JSONFormatFromString(const std::string&) {
  return std::nullopt;
}

Grammar JSONSchemaToGrammar(const std::string&, bool, std::optional<int>,
                            std::optional<std::pair<std::string, std::string>>,
                            bool, std::optional<int>, bool, JSONFormat,
                            std::vector<std::string>) {
  XGRAMMAR_LOG(FATAL) << "this build leaves out JSON schemas of xgrammar";
  XGRAMMAR_UNREACHABLE();
}

std::string RegexToEBNF(const std::string&, bool) {
  XGRAMMAR_LOG(FATAL) << "this build leaves out regexes of xgrammar";
  XGRAMMAR_UNREACHABLE();
}

Grammar LarkToGrammar(const std::string&, const std::optional<TokenizerInfo>&,
                      const std::vector<NamedGrammar>&) {
  XGRAMMAR_LOG(FATAL) << "this build leaves out Lark";
  XGRAMMAR_UNREACHABLE();
}

}  // namespace xgrammar
