#include "common/chat/jinja/item_getter.h"

#include <algorithm>

#include "common/chat/jinja/numbers.h"
#include "common/chat/jinja/operators.h"

namespace espalier::jinja {
namespace {

std::vector<Value> PathOf(Interpreter& in, const Value& attribute) {
  if (attribute.IsNone()) return {};
  if (!attribute.IsText()) return {attribute};
  std::vector<Value> path;
  const Characters& text = attribute.characters();
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(Find(in, text, U".", at), text.size());
    const Characters part = text.substr(at, end - at);
    const bool number =
        !part.empty() && std::all_of(part.begin(), part.end(), IsDigit);
    path.push_back(number
                       ? Value::Integer(ParseInt(ToUtf8(part), 10).value_or(0))
                       : in.Text(part));
    at = end + 1;
  }
  return path;
}

}  // namespace

ItemGetter::ItemGetter(Interpreter& in, const Value& attribute,
                       bool ignore_case, const Value* fallback)
    : path_(PathOf(in, attribute)), ignore_case_(ignore_case) {
  if (fallback != nullptr) fallback_ = *fallback;
}

Value ItemGetter::operator()(Interpreter& in, Value item) const {
  for (const Value& part : path_) {
    item = in.Item(item, part);
    if (item.IsUndefined() && fallback_.has_value()) item = *fallback_;
  }
  return ignore_case_ ? IgnoreCase(in, item) : item;
}

Value IgnoreCase(Interpreter& in, const Value& value) {
  return value.IsText() ? in.Text(Lower(value.characters())) : value;
}

Value AttributeArgument(const Arguments& arguments, size_t index) {
  return arguments.Find(index) == nullptr ? Value() : *arguments.Find(index);
}

Value MakeGenerator(Interpreter& in, const Value& source,
                    Generator::Function next, const char* type) {
  in.budget().SpendValue();
  return Value::Of(std::make_shared<Generator>(type, DepthAround({source}),
                                               std::move(next)));
}

}  // namespace espalier::jinja
