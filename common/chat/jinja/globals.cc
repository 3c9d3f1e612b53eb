#include "common/chat/jinja/globals.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/chat/jinja/arguments.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

class Cycler : public Object {
 public:
  explicit Cycler(std::vector<Value> items)
      : Object(DepthAround(items)), items_(std::move(items)) {}

  std::string TypeName() const override { return "Cycler"; }
  std::optional<Value> Attribute(Interpreter& /*interpreter*/,
                                 std::string_view name) override {
    if (name == "current") return items_[at_];
    if (name != "next" && name != "reset") return std::nullopt;
    const auto self = std::static_pointer_cast<Cycler>(shared_from_this());
    const bool next = name == "next";
    return Value::Of(std::make_shared<Function>(
        std::string(name), depth() + 1,
        [self, next](Interpreter&, CallArguments) -> Value {
          const size_t at = self->at_;
          self->at_ = next ? (at + 1) % self->items_.size() : 0;
          return next ? self->items_[at] : Value();
        }));
  }

 private:
  std::vector<Value> items_;
  size_t at_ = 0;
};

class Joiner : public Object {
 public:
  explicit Joiner(Value separator)
      : Object(DepthAround({separator})), separator_(std::move(separator)) {}

  std::string TypeName() const override { return "Joiner"; }
  bool IsCallable() const override { return true; }
  Value Call(Interpreter& interpreter, CallArguments /*arguments*/) override {
    if (used_) return separator_;
    used_ = true;
    return interpreter.Text("");
  }

 private:
  Value separator_;
  bool used_ = false;
};

Value MakeRange(Interpreter& in, CallArguments given) {
  const Arguments arguments("range", "start stop? step? /", std::move(given));
  in.budget().SpendValue();
  const Int first = arguments.IntOr(0, 0);
  if (arguments.Find(1) == nullptr) {
    return Value::Of(std::make_shared<Range>(0, first, 1));
  }
  return Value::Of(std::make_shared<Range>(first, arguments.IntOr(1, 0),
                                           arguments.IntOr(2, 1)));
}

// dict(mapping or pairs, name=value...).
Dict DictFrom(Interpreter& in, CallArguments given) {
  Dict dict;
  if (given.positional.size() > 1) {
    throw Error(absl::StrCat("dict expected at most 1 argument, got ",
                             given.positional.size()));
  }
  if (!given.positional.empty() && given.positional[0].IsDict()) {
    dict = given.positional[0].dict();
    in.budget().SpendValues(dict.items().size());
  } else if (!given.positional.empty()) {
    for (const Value& pair : in.Items(given.positional[0])) {
      const std::vector<Value> items = in.Items(pair);
      if (items.size() != 2) {
        throw Error(
            "dictionary update sequence element has another length "
            "than 2");
      }
      dict.Set(in.budget(), items[0], items[1]);
    }
  }
  for (auto& [name, value] : given.named) {
    dict.Set(in.budget(), in.Text(FromUtf8(name, given.names_from_input)),
             std::move(value));
  }
  return dict;
}

Value MakeDictValue(Interpreter& in, CallArguments given) {
  return MakeDict(in.budget(), DictFrom(in, std::move(given)));
}

Value MakeNamespace(Interpreter& in, CallArguments given) {
  return in.Own(std::make_shared<Namespace>(DictFrom(in, std::move(given))));
}

Value MakeCycler(Interpreter& in, CallArguments given) {
  if (given.positional.empty()) {
    throw Error("at least one item has to be provided");
  }
  in.budget().SpendValue();
  return Value::Of(std::make_shared<Cycler>(std::move(given.positional)));
}

Value MakeJoiner(Interpreter& in, CallArguments given) {
  const Arguments arguments("joiner", "sep?", std::move(given));
  return Value::Of(std::make_shared<Joiner>(
      arguments.Find(0) == nullptr ? in.Text(", ") : arguments.At(0)));
}

Value RaiseException(Interpreter& in, CallArguments given) {
  const Arguments arguments("raise_exception", "message", std::move(given));
  Error error(ToUtf8(Str(in, arguments.At(0))));
  error.own_words = true;
  throw error;
}

// The marks of the format's characters are not those of the date's: all of the
// text is the input's if one of them is.
Value StrftimeNow(Interpreter& in, CallArguments given) {
  const Arguments arguments("strftime_now", "format", std::move(given));
  const Characters& format = arguments.TextAt(0);
  constexpr size_t kMaxFormat = 1000;
  if (format.size() > kMaxFormat) throw Error("a date format is too long");
  char32_t mark = 0;
  for (char32_t c : format) mark |= c & kFromInput;
  Characters text = FromUtf8(
      absl::FormatTime(ToUtf8(format), in.now(), absl::LocalTimeZone()),
      mark != 0);
  return in.Text(std::move(text));
}

Value Lipsum(Interpreter&, CallArguments) {
  throw Error("lipsum is not supported");
}

}  // namespace

void AddGlobals(Interpreter& interpreter) {
  const auto add = [&](const char* name, Function::Run run) {
    interpreter.SetGlobal(
        name, Value::Of(std::make_shared<Function>(name, 0, std::move(run))));
  };
  add("range", MakeRange);
  add("dict", MakeDictValue);
  add("namespace", MakeNamespace);
  add("cycler", MakeCycler);
  add("joiner", MakeJoiner);
  add("lipsum", Lipsum);
  add("raise_exception", RaiseException);
  add("strftime_now", StrftimeNow);
}

}  // namespace espalier::jinja
