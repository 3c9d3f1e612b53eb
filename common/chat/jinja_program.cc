#include "common/chat/jinja_program.h"

#include <exception>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/chat/jinja/jinja_budget.h"
#include "common/chat/messages.h"
#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"
#include "jinja/value.h"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;
using jinja::token;

constexpr size_t kMaxSourceBytes = size_t{1} << 20;
// The parser takes stack for what is nested, the runtime for what is chained.
constexpr int kMaxNesting = 100;
constexpr int kMaxTokensOfBlock = 4000;

// The end of the engine's message: before it come its own words and the source.
std::string LastWords(absl::string_view what) {
  constexpr absl::string_view kBefore = "Error: ";
  const size_t at = what.rfind(kBefore);
  if (at != absl::string_view::npos) what.remove_prefix(at + kBefore.size());
  absl::ConsumePrefix(&what, "Jinja Exception: ");
  constexpr size_t kMaxShown = 500;
  return Printable(RepairUtf8({what.data(), what.size()}), kMaxShown);
}

// Runs what may throw.
absl::Status Catch(absl::FunctionRef<void()> run) {
  std::string problem;
  try {
    const JinjaBudget budget(kJinjaUnits);
    run();
    return absl::OkStatus();
  } catch (const JinjaLimit& limit) {
    problem = limit.reason;
  } catch (const std::exception& error) {
    problem = LastWords(error.what());
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the model's chat template: ", problem));
}

bool Opens(token::type type) {
  return type == token::open_paren || type == token::open_square_bracket ||
         type == token::open_curly_bracket;
}

bool Closes(token::type type) {
  return type == token::close_paren || type == token::close_square_bracket ||
         type == token::close_curly_bracket;
}

// What a statement's first word adds to the nesting of statements.
int NestingOf(const std::string& keyword) {
  if (keyword == "if" || keyword == "elif" || keyword == "for" ||
      keyword == "macro" || keyword == "call" || keyword == "filter") {
    return 1;
  }
  return keyword == "endfor" || keyword == "endmacro" || keyword == "endcall" ||
                 keyword == "endfilter"
             ? -1
             : 0;
}

// Bounds what the parser and destructors take of the stack. An "elif" is a
// statement in the one before it; all of them end together.
class NestingCheck {
 public:
  void See(const token& t) {
    const bool begins =
        t.t == token::open_statement || t.t == token::open_expression;
    if (begins) tokens_of_block_ = brackets_ = 0;
    if (++tokens_of_block_ > kMaxTokensOfBlock) {
      throw JinjaLimit{"a block of it is too long"};
    }
    if (Opens(t.t)) ++brackets_;
    if (Closes(t.t)) --brackets_;
    if (after_open_statement_) SeeKeyword(t.value);
    after_open_statement_ = t.t == token::open_statement;
    if (brackets_ > kMaxNesting || statements_ > kMaxNesting) {
      throw JinjaLimit{"it nests too deeply"};
    }
  }

 private:
  void SeeKeyword(const std::string& keyword) {
    if (keyword == "endif") {
      while (!ifs_.empty() && ifs_.back() == "elif") {
        ifs_.pop_back();
        --statements_;
      }
      if (ifs_.empty()) return;
      ifs_.pop_back();
      --statements_;
      return;
    }
    if (keyword == "if" || keyword == "elif") ifs_.push_back(keyword);
    statements_ += NestingOf(keyword);
  }

  int tokens_of_block_ = 0;
  int brackets_ = 0;
  int statements_ = 0;
  bool after_open_statement_ = false;
  std::vector<std::string> ifs_;
};

jinja::value ToValue(const Json& json, bool is_input);

jinja::value TextValue(const std::string& text, bool is_input) {
  auto value = jinja::mk_val<jinja::value_string>(text);
  if (is_input) value->mark_input();
  return value;
}

jinja::value ObjectValue(const Json& json, bool is_input) {
  auto object = jinja::mk_val<jinja::value_object>();
  for (const auto& [key, member] : json.items()) {
    const bool is_role = key == "role" && member.is_string() &&
                         IsChatRole(member.get_ref<const std::string&>());
    object->insert(key, ToValue(member, is_input && !is_role));
  }
  return object;
}

// Documents of ParseJson nest no deeper than 64.
jinja::value ToValue(const Json& json, bool is_input) {
  switch (json.type()) {
    case Json::value_t::string:
      return TextValue(json.get_ref<const std::string&>(), is_input);
    case Json::value_t::boolean:
      return jinja::mk_val<jinja::value_bool>(json.get<bool>());
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return jinja::mk_val<jinja::value_int>(json.get<int64_t>());
    case Json::value_t::number_float:
      return jinja::mk_val<jinja::value_float>(json.get<double>());
    case Json::value_t::object:
      return ObjectValue(json, is_input);
    case Json::value_t::array: {
      auto list = jinja::mk_val<jinja::value_array>();
      for (const Json& item : json) list->push_back(ToValue(item, is_input));
      return list;
    }
    default:
      return jinja::mk_val<jinja::value_none>();
  }
}

void SetVariables(const Json& json, bool is_input, jinja::context& context) {
  for (const auto& [name, value] : json.items()) {
    context.set_val(name, ToValue(value, is_input));
  }
}

}  // namespace

struct JinjaProgram::Parsed {
  std::string source;
  std::set<std::string, std::less<>> names;
  jinja::program program;
};

JinjaProgram::JinjaProgram(std::unique_ptr<Parsed> parsed)
    : parsed_(std::move(parsed)) {}

JinjaProgram::~JinjaProgram() = default;

absl::StatusOr<std::unique_ptr<JinjaProgram>> JinjaProgram::Parse(
    const std::string& source) {
  if (source.size() > kMaxSourceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model's chat template: ", source.size(),
                     " bytes; the limit is ", kMaxSourceBytes));
  }
  auto parsed = std::make_unique<Parsed>();
  parsed->source = source;
  RETURN_IF_ERROR(Catch([&] {
    jinja::lexer lexer;
    const jinja::lexer_result tokens = lexer.tokenize(source);
    NestingCheck nesting;
    for (const token& t : tokens.tokens) {
      nesting.See(t);
      if (t.t == token::identifier || t.t == token::string_literal) {
        parsed->names.insert(t.value);
      }
    }
    parsed->program = jinja::parse_from_tokens(tokens);
  }));
  return std::unique_ptr<JinjaProgram>(new JinjaProgram(std::move(parsed)));
}

bool JinjaProgram::Mentions(std::string_view name) const {
  return parsed_->names.find(name) != parsed_->names.end();
}

absl::StatusOr<std::vector<JinjaProgram::Piece>> JinjaProgram::Render(
    const Json& trusted, const Json& input, absl::Time now) const {
  std::vector<Piece> pieces;
  RETURN_IF_ERROR(Catch([&] {
    jinja::context context(parsed_->source);
    context.current_time = absl::ToTimeT(now);
    SetVariables(trusted, /*is_input=*/false, context);
    SetVariables(input, /*is_input=*/true, context);
    jinja::runtime runtime(context);
    const jinja::value_string text =
        jinja::runtime::gather_string_parts(runtime.execute(parsed_->program));
    for (jinja::string_part& part : text->val_str.parts) {
      pieces.push_back({std::move(part.val), part.is_input});
    }
  }));
  return pieces;
}

}  // namespace espalier
