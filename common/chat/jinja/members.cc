#include "common/chat/jinja/members.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/object.h"

namespace espalier::jinja {
namespace {

constexpr std::array<std::string_view, 8> kListChanges = {
    "append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
constexpr std::array<std::string_view, 5> kDictChanges = {
    "clear", "pop", "popitem", "setdefault", "update"};
// Attributes of Python that are not here: undefined would be wrong.
constexpr std::array<std::string_view, 3> kOfText = {"encode", "maketrans",
                                                     "translate"};
constexpr std::array<std::string_view, 12> kOfNumber = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
    "from_bytes",       "fromhex",   "hex",        "imag",      "is_integer",
    "numerator",        "to_bytes"};

template <size_t kSize>
bool IsIn(const std::array<std::string_view, kSize>& names,
          std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void NotSupported(const Value& object, std::string_view name) {
  throw Error(absl::StrCat(TypeName(object), ".", std::string(name),
                           " is not supported"));
}

Method MethodOf(const Value& object, std::string_view name) {
  if (object.IsText()) return FindTextMethod(name);
  if (object.IsSequence()) return FindSequenceMethod(name);
  return object.IsDict() ? FindDictMethod(name) : nullptr;
}

void CheckSupported(const Value& object, std::string_view name) {
  if (object.IsText() && IsIn(kOfText, name)) NotSupported(object, name);
  if (object.IsDict() && name == "fromkeys") NotSupported(object, name);
  if (object.IsNumber() && (IsIn(kOfNumber, name) || name == "real")) {
    NotSupported(object, name);
  }
}

struct Cut {
  Int start, step, count;
};

Int BoundOf(const Value& bound) {
  if (bound.IsIntegral()) return bound.integer();
  throw Error(
      "slice indices must be integers or None or have an __index__ method");
}

// Computes the indices of a slice like Python's slice.indices.
Cut CutOf(const SliceBounds& bounds, Int size) {
  const Int step = bounds.step.IsNone() ? 1 : BoundOf(bounds.step);
  if (step == 0) throw Error("slice step cannot be zero");
  const Int low = step > 0 ? 0 : -1;
  const Int high = step > 0 ? size : size - 1;
  const auto clamp = [&](const Value& bound, Int otherwise) {
    if (bound.IsNone()) return otherwise;
    Int at = BoundOf(bound);
    if (at < 0) at += size;
    return std::clamp(at, low, high);
  };
  const Int start = clamp(bounds.start, step > 0 ? low : high);
  const Int stop = clamp(bounds.stop, step > 0 ? high : low);
  const Int distance = step > 0 ? stop - start : start - stop;
  // A step beyond the size takes one item.
  const Int stride = std::min(step > 0 ? step : -(step + 1) + 1, size + 1);
  const Int count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  return {start, step > 0 ? stride : -stride, count};
}

}  // namespace

bool ChangesItsObject(const Value& object, std::string_view name) {
  return (object.IsList() && IsIn(kListChanges, name)) ||
         (object.IsDict() && IsIn(kDictChanges, name));
}

std::optional<Value> FindAttribute(Interpreter& interpreter,
                                   const Value& object, std::string_view name) {
  if (object.IsObject()) return object.object()->Attribute(interpreter, name);
  if (object.IsSequence() && object.sequence().kind == Sequence::Kind::kGroup) {
    if (name == "grouper") return object.items()[0];
    if (name == "list") return object.items()[1];
  }
  const Method method = MethodOf(object, name);
  if (method == nullptr) {
    CheckSupported(object, name);
    return std::nullopt;
  }
  interpreter.budget().SpendValue();
  return Value::Of(std::make_shared<Function>(
      std::string(name), DepthAround({object}),
      [method, object](Interpreter& in, CallArguments arguments) {
        return method(in, object, std::move(arguments));
      }));
}

std::optional<Value> FindItem(Interpreter& interpreter, const Value& object,
                              const Value& key) {
  if (object.IsDict()) {
    const bool hashable = !key.IsList() && !key.IsDict();
    if (!hashable) return std::nullopt;
    const Value* found = object.dict().Find(interpreter.budget(), key);
    if (found == nullptr) return std::nullopt;
    return *found;
  }
  if (object.IsObject()) return object.object()->Item(interpreter, key);
  if (!key.IsIntegral()) return std::nullopt;
  Int index = key.integer();
  if (object.IsSequence()) {
    const auto size = static_cast<Int>(object.items().size());
    if (index < 0) index += size;
    if (index < 0 || index >= size) return std::nullopt;
    return object.items()[static_cast<size_t>(index)];
  }
  if (!object.IsText()) return std::nullopt;
  const auto size = static_cast<Int>(object.characters().size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return MakeText(interpreter.budget(),
                  {object.characters()[static_cast<size_t>(index)]},
                  object.IsMarkup());
}

Value SliceValue(Interpreter& interpreter, const Value& object,
                 const SliceBounds& bounds) {
  if (object.IsUndefined()) throw Error(object.undefined());
  const bool is_range = object.IsObject() &&
                        dynamic_cast<Range*>(object.object().get()) != nullptr;
  if (object.IsDict()) throw Error("unhashable type: 'slice'");
  if (!object.IsText() && !object.IsSequence() && !is_range) {
    throw Error(
        absl::StrCat("'", TypeName(object), "' object is not subscriptable"));
  }
  if (is_range) {
    auto& range = static_cast<Range&>(*object.object());
    const Cut cut = CutOf(bounds, *range.Length());
    return Value::Of(range.Slice(cut.start, cut.count, cut.step));
  }
  const size_t size =
      object.IsText() ? object.characters().size() : object.items().size();
  const Cut cut = CutOf(bounds, static_cast<Int>(size));
  const auto at = [&](Int i) {
    return static_cast<size_t>(cut.start + i * cut.step);
  };
  if (object.IsText()) {
    Characters text;
    interpreter.budget().SpendCharacters(static_cast<size_t>(cut.count));
    text.reserve(static_cast<size_t>(cut.count));
    for (Int i = 0; i < cut.count; ++i) {
      text.push_back(object.characters()[at(i)]);
    }
    return MakeText(interpreter.budget(), std::move(text), object.IsMarkup());
  }
  std::vector<Value> items;
  interpreter.budget().SpendValues(static_cast<size_t>(cut.count) / 8);
  for (Int i = 0; i < cut.count; ++i) items.push_back(object.items()[at(i)]);
  return object.IsList() ? MakeList(interpreter.budget(), std::move(items))
                         : MakeTuple(interpreter.budget(), std::move(items));
}

}  // namespace espalier::jinja
