#ifndef ESPALIER_COMMON_CHAT_JINJA_ARGUMENTS_H_
#define ESPALIER_COMMON_CHAT_JINJA_ARGUMENTS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/chat/jinja/object.h"
#include "common/chat/jinja/value.h"

namespace espalier::jinja {

// The arguments of a call to a function of ours, by parameter.
class Arguments {
 public:
  // `parameters`: names between blanks, "?" after those that may be left out;
  // those before "/" cannot be named. Throws Error: too many, too few, unknown.
  Arguments(std::string_view function, std::string_view parameters,
            CallArguments given);

  // Null: not given.
  const Value* Find(size_t index) const {
    return values_[index].has_value() ? &*values_[index] : nullptr;
  }
  // Null: not given, or None.
  const Value* FindSome(size_t index) const {
    const Value* value = Find(index);
    return value == nullptr || value->IsNone() ? nullptr : value;
  }
  // REQUIRES: the parameter is not optional.
  const Value& At(size_t index) const { return *values_[index]; }

  // These throw Error: of another type.
  const Characters& TextAt(size_t index) const;
  Int IntOr(size_t index, Int otherwise) const;
  bool TruthOr(size_t index, bool otherwise) const;

 private:
  std::string function_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_ARGUMENTS_H_
