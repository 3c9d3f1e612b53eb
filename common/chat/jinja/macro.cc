#include "common/chat/jinja/macro.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

// Takes the argument `name` out.
std::optional<Value> TakeNamed(CallArguments& arguments,
                               std::string_view name) {
  for (auto at = arguments.named.begin(); at != arguments.named.end(); ++at) {
    if (at->first != name) continue;
    Value value = std::move(at->second);
    arguments.named.erase(at);
    return value;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::optional<Value>> Macro::Bind(CallArguments& arguments) const {
  const std::vector<std::string>& parameters = code_->signature.parameters;
  std::vector<std::optional<Value>> bound;
  std::vector<Value>& given = arguments.positional;
  const size_t taken = std::min(given.size(), parameters.size());
  for (size_t i = 0; i < taken; ++i) bound.push_back(std::move(given[i]));
  given.erase(given.begin(), given.begin() + taken);
  for (size_t i = taken; i < parameters.size(); ++i) {
    bound.push_back(TakeNamed(arguments, parameters[i]));
  }
  return bound;
}

void Macro::BindCaller(Interpreter& interpreter,
                       CallArguments& arguments) const {
  const Signature& signature = code_->signature;
  const bool is_parameter =
      std::find(signature.parameters.begin(), signature.parameters.end(),
                "caller") != signature.parameters.end();
  if (!signature.uses_caller || is_parameter) return;
  std::optional<Value> caller = TakeNamed(arguments, "caller");
  if (!caller.has_value() || caller->IsNone()) {
    caller = Value::Undefined("No caller defined");
  }
  interpreter.SetVariable("caller", *std::move(caller));
}

void Macro::BindRest(Interpreter& interpreter, CallArguments& arguments) const {
  const Signature& signature = code_->signature;
  const auto shown = [&] { return Quoted(FromUtf8(code_->name)); };
  if (signature.uses_named) {
    Dict named;
    for (auto& [name, value] : arguments.named) {
      named.Set(interpreter.budget(),
                interpreter.Text(FromUtf8(name, arguments.names_from_input)),
                std::move(value));
    }
    interpreter.SetVariable("kwargs",
                            MakeDict(interpreter.budget(), std::move(named)));
  } else if (!arguments.named.empty()) {
    const std::string& name = arguments.named[0].first;
    if (name == "caller") {
      throw Error(absl::StrCat("macro ", shown(),
                               " was invoked with two values for the special "
                               "caller argument. This is most likely a bug."));
    }
    throw Error(absl::StrCat("macro ", shown(), " takes no keyword argument '",
                             name, "'"));
  }
  if (signature.uses_positional) {
    interpreter.SetVariable(
        "varargs",
        MakeTuple(interpreter.budget(), std::move(arguments.positional)));
  } else if (!arguments.positional.empty()) {
    throw Error(absl::StrCat("macro ", shown(), " takes not more than ",
                             signature.parameters.size(), " argument(s)"));
  }
}

Value Macro::Call(Interpreter& interpreter, CallArguments arguments) {
  const Signature& signature = code_->signature;
  const ScopeGuard guard(interpreter, scope_);
  std::vector<std::optional<Value>> bound = Bind(arguments);
  BindCaller(interpreter, arguments);
  BindRest(interpreter, arguments);
  const size_t first_default = bound.size() - signature.defaults.size();
  for (size_t i = 0; i < bound.size(); ++i) {
    const std::string& name = signature.parameters[i];
    if (!bound[i].has_value()) {
      bound[i] =
          i >= first_default
              ? signature.defaults[i - first_default]->Evaluate(interpreter)
              : Value::Undefined(
                    absl::StrCat("parameter '", name, "' was not provided"));
    }
    interpreter.SetVariable(name, *std::move(bound[i]));
  }
  Capture capture(interpreter);
  ExecuteBody(code_->body, interpreter);
  return interpreter.Text(capture.Take());
}

std::optional<Value> Macro::Attribute(Interpreter& interpreter,
                                      std::string_view name) {
  if (name == "name") return interpreter.Text(FromUtf8(code_->name));
  if (name == "caller") return Value::Bool(code_->signature.uses_caller);
  if (name == "catch_kwargs") return Value::Bool(code_->signature.uses_named);
  if (name == "catch_varargs") {
    return Value::Bool(code_->signature.uses_positional);
  }
  if (name != "arguments") return std::nullopt;
  std::vector<Value> parameters;
  for (const std::string& parameter : code_->signature.parameters) {
    parameters.push_back(interpreter.Text(FromUtf8(parameter)));
  }
  return MakeTuple(interpreter.budget(), std::move(parameters));
}

Characters Macro::Repr(Interpreter& /*interpreter*/, int /*depth*/) {
  if (code_->name.empty()) return U"<Macro anonymous>";
  return FromUtf8(absl::StrCat("<Macro ", Quoted(FromUtf8(code_->name)), ">"));
}

void Macro::Clear() {
  if (scope_ != nullptr) scope_->variables.clear();
  scope_.reset();
}

}  // namespace espalier::jinja
