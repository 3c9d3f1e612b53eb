#include "common/chat/jinja/object.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/interpreter.h"
#include "common/chat/jinja/members.h"
#include "common/chat/jinja/numbers.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

constexpr Int kMaxRange = 100000;

class FunctionIterator : public Iterator {
 public:
  explicit FunctionIterator(Generator::Function next)
      : next_(std::move(next)) {}

  std::optional<Value> Next() override { return next_(); }

 private:
  Generator::Function next_;
};

Int RangeLength(Int start, Int stop, Int step) {
  if (step == 0) throw Error("range() arg 3 must not be zero");
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const Int distance = step > 0 ? Subtract(stop, start) : Subtract(start, stop);
  const Int size = step > 0 ? step : Subtract(0, step);
  return (distance - 1) / size + 1;
}

}  // namespace

Value Object::Call(Interpreter& /*interpreter*/, CallArguments /*arguments*/) {
  throw Error(absl::StrCat("'", TypeName(), "' object is not callable"));
}

Characters Object::Repr(Interpreter& /*interpreter*/, int /*depth*/) {
  return FromUtf8(absl::StrCat("<", TypeName(), " object>"));
}

int DepthAround(const std::vector<Value>& values) {
  int depth = 0;
  for (const Value& value : values) depth = std::max(depth, value.depth());
  if (depth >= kMaxValueDepth) throw Error("its values nest too deeply");
  return depth + 1;
}

Range::Range(Int start, Int stop, Int step)
    : Object(0),
      start_(start),
      stop_(stop),
      step_(step),
      length_(RangeLength(start, stop, step)) {
  if (length_ > kMaxRange) {
    throw Error(absl::StrCat(
        "Range too big. The sandbox blocks ranges larger than MAX_RANGE (",
        ToString(kMaxRange), ")."));
  }
}

std::optional<Value> Range::Item(Interpreter& /*interpreter*/,
                                 const Value& key) {
  if (!key.IsIntegral()) return std::nullopt;
  Int index = key.integer();
  if (index < 0) index += length_;
  if (index < 0 || index >= length_) return std::nullopt;
  return At(index);
}

IteratorPtr Range::Iterate(Interpreter& interpreter) {
  auto self = std::static_pointer_cast<Range>(shared_from_this());
  return IteratorOf(
      [self, &interpreter, at = Int{0}]() mutable -> std::optional<Value> {
        if (at >= self->length_) return std::nullopt;
        interpreter.budget().Spend(1);
        return self->At(at++);
      });
}

Characters Range::Repr(Interpreter& /*interpreter*/, int /*depth*/) {
  std::string text =
      absl::StrCat("range(", ToString(start_), ", ", ToString(stop_));
  if (step_ != 1) absl::StrAppend(&text, ", ", ToString(step_));
  return FromUtf8(absl::StrCat(text, ")"));
}

std::shared_ptr<Range> Range::Slice(Int start, Int count, Int step) const {
  const Int first = start_ + start * step_;
  return std::make_shared<Range>(first, first + count * step * step_,
                                 step * step_);
}

bool Range::Equals(const Range& other) const {
  if (length_ != other.length_) return false;
  if (length_ == 0) return true;
  return start_ == other.start_ && (length_ == 1 || step_ == other.step_);
}

std::string DictView::TypeName() const {
  switch (kind_) {
    case Kind::kKeys:
      return "dict_keys";
    case Kind::kValues:
      return "dict_values";
    default:
      return "dict_items";
  }
}

std::vector<Value> DictView::Items(Interpreter& interpreter) const {
  std::vector<Value> items;
  interpreter.budget().SpendValues(dict_.dict().items().size() / 8);
  for (const auto& [key, value] : dict_.dict().items()) {
    if (kind_ == Kind::kItems) {
      items.push_back(MakeTuple(interpreter.budget(), {key, value}));
    } else {
      items.push_back(kind_ == Kind::kKeys ? key : value);
    }
  }
  return items;
}

IteratorPtr DictView::Iterate(Interpreter& interpreter) {
  return IteratorOf([items = Items(interpreter),
                     at = size_t{0}]() mutable -> std::optional<Value> {
    if (at >= items.size()) return std::nullopt;
    return items[at++];
  });
}

std::optional<Int> DictView::Length() {
  return static_cast<Int>(dict_.dict().items().size());
}

Characters DictView::Repr(Interpreter& interpreter, int depth) {
  Characters text = FromUtf8(absl::StrCat(TypeName(), "("));
  AppendRepr(interpreter, MakeList(interpreter.budget(), Items(interpreter)),
             depth, text);
  text.push_back(U')');
  return text;
}

Generator::Generator(std::string type, int depth, Function next)
    : Object(depth),
      type_(std::move(type)),
      next_(IteratorOf(std::move(next))) {}

Characters Function::Repr(Interpreter& /*interpreter*/, int /*depth*/) {
  return FromUtf8(absl::StrCat("<function ", name_, ">"));
}

std::optional<Value> Namespace::Attribute(Interpreter& interpreter,
                                          std::string_view name) {
  const Value* found =
      attributes_.Find(interpreter.budget(), ConstantText(FromUtf8(name)));
  if (found == nullptr) return std::nullopt;
  return *found;
}

Characters Namespace::Repr(Interpreter& interpreter, int depth) {
  Characters text = U"<Namespace ";
  AppendRepr(interpreter, MakeDict(interpreter.budget(), attributes_), depth,
             text);
  text.push_back(U'>');
  return text;
}

void Namespace::Set(Budget& budget, std::string_view name, Value value) {
  attributes_.Set(budget, ConstantText(FromUtf8(name)), std::move(value));
}

IteratorPtr IteratorOf(Generator::Function next) {
  return std::make_shared<FunctionIterator>(std::move(next));
}

}  // namespace espalier::jinja
