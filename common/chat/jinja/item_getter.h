#ifndef ESPALIER_COMMON_CHAT_JINJA_ITEM_GETTER_H_
#define ESPALIER_COMMON_CHAT_JINJA_ITEM_GETTER_H_

#include <optional>
#include <vector>

#include "common/chat/jinja/arguments.h"
#include "common/chat/jinja/interpreter.h"
#include "common/chat/jinja/value.h"

// Filters of sequences share this.
namespace espalier::jinja {

// Looks up what `attribute` names in an item: "a.b.0", a number, or None for
// the item itself. Jinja's make_attrgetter.
class ItemGetter {
 public:
  // `fallback`: in place of what is undefined; null: undefined stays.
  ItemGetter(Interpreter& in, const Value& attribute, bool ignore_case,
             const Value* fallback = nullptr);

  Value operator()(Interpreter& in, Value item) const;

 private:
  std::vector<Value> path_;
  bool ignore_case_;
  std::optional<Value> fallback_;
};

// Returns a text in lower case; another value as it is.
Value IgnoreCase(Interpreter& in, const Value& value);

// None if the argument is not given.
Value AttributeArgument(const Arguments& arguments, size_t index);

// Returns a generator that reads `source`.
Value MakeGenerator(Interpreter& in, const Value& source,
                    Generator::Function next, const char* type = "generator");

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_ITEM_GETTER_H_
