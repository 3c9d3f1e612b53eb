#include "common/chat/jinja/loop.h"

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/interpreter.h"
#include "common/chat/jinja/numbers.h"

namespace espalier::jinja {

std::optional<Value> LoopObject::Advance() {
  std::optional<Value> next;
  if (!ahead_.empty()) {
    next = std::move(ahead_.front());
    ahead_.pop_front();
  } else {
    next = items_->Next();
  }
  if (!next.has_value()) return std::nullopt;
  ++index_;
  before_ = std::move(current_);
  current_ = next;
  return next;
}

const Value* LoopObject::Next() {
  if (ahead_.empty()) {
    std::optional<Value> next = items_->Next();
    if (!next.has_value()) return nullptr;
    ahead_.push_back(*std::move(next));
  }
  return &ahead_.front();
}

std::optional<Int> LoopObject::Length() {
  if (!length_.has_value()) {
    for (auto next = items_->Next(); next.has_value(); next = items_->Next()) {
      ahead_.push_back(*std::move(next));
    }
    length_ = index_ + 1 + static_cast<Int>(ahead_.size());
  }
  return length_;
}

Value LoopObject::Call(Interpreter& interpreter, CallArguments arguments) {
  if (recurse_ == nullptr) {
    throw Error(
        "The loop must have the 'recursive' marker to be called recursively.");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    throw Error("loop() takes one argument");
  }
  const Step step(interpreter.budget());
  return recurse_(arguments.positional[0]);
}

Value LoopObject::Changed(Interpreter& interpreter, CallArguments arguments) {
  Value now = MakeTuple(interpreter.budget(), std::move(arguments.positional));
  if (last_changed_.has_value() &&
      Equal(interpreter.budget(), *last_changed_, now)) {
    return Value::Bool(false);
  }
  last_changed_ = std::move(now);
  return Value::Bool(true);
}

std::optional<Value> LoopObject::Attribute(Interpreter& /*interpreter*/,
                                           std::string_view name) {
  if (name == "index") return Value::Integer(index_ + 1);
  if (name == "index0") return Value::Integer(index_);
  if (name == "first") return Value::Bool(index_ == 0);
  if (name == "last") return Value::Bool(Next() == nullptr);
  if (name == "length") return Value::Integer(*Length());
  if (name == "revindex") return Value::Integer(*Length() - index_);
  if (name == "revindex0") return Value::Integer(*Length() - index_ - 1);
  if (name == "depth") return Value::Integer(level_ + 1);
  if (name == "depth0") return Value::Integer(level_);
  if (name == "previtem") {
    if (index_ > 0) return *before_;
    return Value::Undefined("there is no previous item");
  }
  if (name == "nextitem") {
    const Value* next = Next();
    if (next != nullptr) return *next;
    return Value::Undefined("there is no next item");
  }
  if (name != "cycle" && name != "changed") return std::nullopt;
  const auto self = std::static_pointer_cast<LoopObject>(shared_from_this());
  if (name == "cycle") {
    return Value::Of(std::make_shared<Function>(
        "cycle", depth(), [self](Interpreter&, CallArguments arguments) {
          const auto& items = arguments.positional;
          if (items.empty()) throw Error("no items for cycling given");
          return items[static_cast<size_t>(self->index_) % items.size()];
        }));
  }
  return Value::Of(std::make_shared<Function>(
      "changed", depth(), [self](Interpreter& in, CallArguments arguments) {
        return self->Changed(in, std::move(arguments));
      }));
}

Characters LoopObject::Repr(Interpreter& /*interpreter*/, int /*depth*/) {
  return FromUtf8(absl::StrCat("<LoopContext ", ToString(index_ + 1), "/",
                               ToString(*Length()), ">"));
}

}  // namespace espalier::jinja
