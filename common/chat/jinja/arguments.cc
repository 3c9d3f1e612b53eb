#include "common/chat/jinja/arguments.h"

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"

namespace espalier::jinja {
namespace {

struct Parameter {
  std::string_view name;
  bool optional = false;
  bool positional_only = false;
};

std::vector<Parameter> ParseParameters(std::string_view text) {
  std::vector<Parameter> parameters;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word == "/") {
      for (Parameter& parameter : parameters) parameter.positional_only = true;
      continue;
    }
    const bool optional = word.back() == '?';
    if (optional) word.remove_suffix(1);
    parameters.push_back({.name = word, .optional = optional});
  }
  return parameters;
}

}  // namespace

Arguments::Arguments(std::string_view function, std::string_view parameters,
                     CallArguments given)
    : function_(function) {
  const std::vector<Parameter> known = ParseParameters(parameters);
  if (given.positional.size() > known.size()) {
    throw Error(absl::StrCat(function_, "() takes at most ", known.size(),
                             " arguments (", given.positional.size(),
                             " given)"));
  }
  for (Value& value : given.positional) values_.push_back(std::move(value));
  values_.resize(known.size());
  for (auto& [name, value] : given.named) {
    size_t at = 0;
    while (at < known.size() &&
           (known[at].positional_only || known[at].name != name)) {
      ++at;
    }
    if (at == known.size()) {
      throw Error(absl::StrCat(
          function_, "() got an unexpected keyword argument '", name, "'"));
    }
    if (values_[at].has_value()) {
      throw Error(absl::StrCat(
          function_, "() got multiple values for argument '", name, "'"));
    }
    values_[at] = std::move(value);
  }
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i].optional || values_[i].has_value()) continue;
    throw Error(absl::StrCat(function_, "() missing 1 required argument: '",
                             std::string(known[i].name), "'"));
  }
}

const Characters& Arguments::TextAt(size_t index) const {
  const Value& value = At(index);
  if (value.IsUndefined()) throw Error(value.undefined());
  if (value.IsText()) return value.characters();
  throw Error(absl::StrCat(function_, "() argument ", index + 1,
                           " must be str, not ", TypeName(value)));
}

Int Arguments::IntOr(size_t index, Int otherwise) const {
  const Value* value = Find(index);
  if (value == nullptr) return otherwise;
  if (value->IsUndefined()) throw Error(value->undefined());
  if (value->IsIntegral()) return value->integer();
  throw Error(absl::StrCat("'", TypeName(*value),
                           "' object cannot be interpreted as an integer"));
}

bool Arguments::TruthOr(size_t index, bool otherwise) const {
  const Value* value = Find(index);
  return value == nullptr ? otherwise : IsTrue(*value);
}

}  // namespace espalier::jinja
