#include "common/chat/jinja_program.h"

#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/interpreter.h"
#include "common/chat/jinja/lexer.h"
#include "common/chat/jinja/parser.h"
#include "common/chat/messages.h"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;
using jinja::Value;

constexpr size_t kMaxSourceBytes = size_t{1} << 20;

// Runs what may throw.
absl::Status Catch(absl::FunctionRef<void()> run) {
  try {
    run();
    return absl::OkStatus();
  } catch (const jinja::Error& error) {
    constexpr size_t kMaxShown = 500;
    std::string where = "the model's chat template";
    if (error.line > 0 && !error.own_words) {
      absl::StrAppend(&where, ", line ", error.line);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": ", Printable(RepairUtf8(error.message), kMaxShown)));
  }
}

// Makes values of JSON. Documents of ParseJson nest no deeper than 64.
class Converter {
 public:
  Converter(jinja::Budget& budget, bool from_input)
      : budget_(budget), from_input_(from_input) {}

  Value Convert(const Json& json) const { return Convert(json, from_input_); }

 private:
  Value Convert(const Json& json, bool from_input) const {
    switch (json.type()) {
      case Json::value_t::string:
        return Text(json.get_ref<const std::string&>(), from_input);
      case Json::value_t::boolean:
        return Value::Bool(json.get<bool>());
      case Json::value_t::number_integer:
        return Value::Integer(json.get<int64_t>());
      case Json::value_t::number_unsigned:
        return Value::Integer(json.get<uint64_t>());
      case Json::value_t::number_float:
        return Value::Float(json.get<double>());
      case Json::value_t::object:
        return Object(json);
      case Json::value_t::array: {
        std::vector<Value> items;
        for (const Json& item : json) items.push_back(Convert(item));
        return jinja::MakeList(budget_, std::move(items));
      }
      default:
        return Value();
    }
  }

  Value Text(const std::string& text, bool from_input) const {
    return jinja::MakeText(budget_, jinja::FromUtf8(text, from_input));
  }

  Value Object(const Json& json) const {
    jinja::Dict dict;
    for (const auto& [key, member] : json.items()) {
      const bool is_role = key == "role" && member.is_string() &&
                           IsChatRole(member.get_ref<const std::string&>());
      dict.Set(budget_, Text(key, from_input_),
               Convert(member, from_input_ && !is_role));
    }
    return jinja::MakeDict(budget_, std::move(dict));
  }

  jinja::Budget& budget_;
  bool from_input_;
};

void SetVariables(const Json& json, bool from_input,
                  jinja::Interpreter& interpreter) {
  const Converter converter(interpreter.budget(), from_input);
  for (const auto& [name, value] : json.items()) {
    interpreter.SetGlobal(name, converter.Convert(value));
  }
}

// Splits characters and their marks.
JinjaProgram::Rendered Unmarked(jinja::CharactersView characters) {
  JinjaProgram::Rendered rendered;
  std::string& text = rendered.text;
  for (size_t at = 0; at < characters.size();) {
    const char32_t mark = characters[at] & jinja::kFromInput;
    size_t end = at + 1;
    while (end < characters.size() &&
           (characters[end] & jinja::kFromInput) == mark) {
      ++end;
    }
    const size_t begin = text.size();
    text += jinja::ToUtf8(characters.substr(at, end - at));
    if (mark != 0) {
      rendered.from_input.push_back({.begin = begin, .end = text.size()});
    }
    at = end;
  }
  return rendered;
}

}  // namespace

struct JinjaProgram::Parsed {
  std::set<std::string, std::less<>> names;
  jinja::Body body;
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
  RETURN_IF_ERROR(Catch([&] {
    const std::vector<jinja::Token> tokens = jinja::Tokenize(source);
    for (const jinja::Token& token : tokens) {
      if (token.type == jinja::Token::Type::kName) {
        parsed->names.insert(token.text);
      } else if (token.type == jinja::Token::Type::kString) {
        parsed->names.insert(jinja::ToUtf8(token.characters));
      }
    }
    parsed->body = jinja::Parse(tokens);
  }));
  return std::unique_ptr<JinjaProgram>(new JinjaProgram(std::move(parsed)));
}

bool JinjaProgram::Mentions(std::string_view name) const {
  return parsed_->names.find(name) != parsed_->names.end();
}

absl::StatusOr<JinjaProgram::Rendered> JinjaProgram::Render(
    const Json& trusted, const Json& input, absl::Time now) const {
  Rendered rendered;
  RETURN_IF_ERROR(Catch([&] {
    jinja::Interpreter interpreter(now);
    SetVariables(input, /*from_input=*/true, interpreter);
    SetVariables(trusted, /*from_input=*/false, interpreter);
    (void)jinja::ExecuteBody(parsed_->body, interpreter);
    rendered = Unmarked(interpreter.TakeOutput());
  }));
  return rendered;
}

}  // namespace espalier
