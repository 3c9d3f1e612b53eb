// The methods of list, tuple and dict that change nothing.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/arguments.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/members.h"
#include "common/chat/jinja/object.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

Value CountItem(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("count", "value /", std::move(given));
  Int count = 0;
  for (const Value& item : self.items()) {
    count += Equal(in.budget(), item, arguments.At(0)) ? 1 : 0;
  }
  return Value::Integer(count);
}

Value IndexOfItem(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("index", "value start? stop? /", std::move(given));
  const auto size = static_cast<Int>(self.items().size());
  const auto bound = [&](size_t i, Int otherwise) {
    const Int at = arguments.IntOr(i, otherwise);
    return std::clamp<Int>(at < 0 ? at + size : at, 0, size);
  };
  const Int stop = bound(2, size);
  for (Int i = bound(1, 0); i < stop; ++i) {
    const Value& item = self.items()[static_cast<size_t>(i)];
    if (Equal(in.budget(), item, arguments.At(0))) return Value::Integer(i);
  }
  Characters shown;
  AppendRepr(in, arguments.At(0), 0, shown);
  throw Error(absl::StrCat(ToUtf8(shown), " is not in list"));
}

Value Copy(Interpreter&, const Value& self, CallArguments given) {
  const Arguments arguments("copy", "", std::move(given));
  return self;
}

Value Get(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("get", "key default? /", std::move(given));
  const Value* found = self.dict().Find(in.budget(), arguments.At(0));
  if (found != nullptr) return *found;
  return arguments.Find(1) == nullptr ? Value() : *arguments.Find(1);
}

template <DictView::Kind kKind>
Value View(Interpreter& in, const Value& self, CallArguments given) {
  const Arguments arguments("view", "", std::move(given));
  in.budget().SpendValue();
  DepthAround({self});
  return Value::Of(std::make_shared<DictView>(kKind, self));
}

}  // namespace

Method FindSequenceMethod(std::string_view name) {
  if (name == "count") return CountItem;
  if (name == "index") return IndexOfItem;
  // A tuple has none, and nothing tells the two apart afterwards.
  return name == "copy" ? Copy : nullptr;
}

Method FindDictMethod(std::string_view name) {
  if (name == "get") return Get;
  if (name == "items") return View<DictView::Kind::kItems>;
  if (name == "keys") return View<DictView::Kind::kKeys>;
  if (name == "values") return View<DictView::Kind::kValues>;
  return name == "copy" ? Copy : nullptr;
}

}  // namespace espalier::jinja
