// The filters that are generators in Python: they read their sequence when, and
// as far as, somebody reads them.
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/arguments.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/filters.h"
#include "common/chat/jinja/item_getter.h"
#include "common/chat/jinja/numbers.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

Value ItemsFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("items", "", std::move(given));
  if (!subject.IsDict() && !subject.IsUndefined()) {
    throw Error("Can only get item pairs from a mapping.");
  }
  return MakeGenerator(
      in, subject,
      [&in, subject, at = size_t{0}]() mutable -> std::optional<Value> {
        if (subject.IsUndefined()) return std::nullopt;
        if (at >= subject.dict().items().size()) return std::nullopt;
        const auto& [key, value] = subject.dict().items()[at++];
        return MakeTuple(in.budget(), {key, value});
      });
}

Value Unique(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("unique", "case_sensitive? attribute?",
                            std::move(given));
  const ItemGetter getter(in, AttributeArgument(arguments, 1),
                          !arguments.TruthOr(0, false));
  const auto seen = std::make_shared<Dict>();
  return MakeGenerator(
      in, subject,
      [&in, getter, seen, subject,
       iterator = IteratorPtr()]() mutable -> std::optional<Value> {
        if (iterator == nullptr) iterator = in.Iterate(subject);
        for (auto item = iterator->Next(); item.has_value();
             item = iterator->Next()) {
          Value key = getter(in, *item);
          if (seen->Find(in.budget(), key) != nullptr) continue;
          in.budget().SpendValue();
          seen->Set(in.budget(), std::move(key), Value());
          return item;
        }
        return std::nullopt;
      });
}

Value Batch(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("batch", "linecount fill_with?", std::move(given));
  const Int size = arguments.IntOr(0, 0);
  std::vector<Value> items = in.Items(subject);
  std::vector<Value> batches;
  std::vector<Value> batch;
  for (Value& item : items) {
    if (static_cast<Int>(batch.size()) == size) {
      batches.push_back(MakeList(in.budget(), std::move(batch)));
      batch.clear();
    }
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) {
    const Value* fill = arguments.FindSome(1);
    while (fill != nullptr && static_cast<Int>(batch.size()) < size) {
      in.budget().Spend(1);
      batch.push_back(*fill);
    }
    batches.push_back(MakeList(in.budget(), std::move(batch)));
  }
  return MakeGenerator(
      in, MakeList(in.budget(), batches),
      [batches, at = size_t{0}]() mutable -> std::optional<Value> {
        if (at >= batches.size()) return std::nullopt;
        return batches[at++];
      });
}

Value SliceFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("slice", "slices fill_with?", std::move(given));
  const std::vector<Value> items = in.Items(subject);
  const Int count = arguments.IntOr(0, 0);
  const auto size = static_cast<Int>(items.size());
  if (count == 0) throw Error("integer division or modulo by zero");
  const Int each = FloorDivide(size, count);
  const Int with_extra = Modulo(size, count);
  std::vector<Value> slices;
  Int begin = 0;
  for (Int i = 0; i < count; ++i) {
    const Int end = begin + each + (i < with_extra ? 1 : 0);
    std::vector<Value> slice(items.begin() + static_cast<long>(begin),
                             items.begin() + static_cast<long>(end));
    const Value* fill = arguments.FindSome(1);
    if (fill != nullptr && i >= with_extra) slice.push_back(*fill);
    slices.push_back(MakeList(in.budget(), std::move(slice)));
    begin = end;
  }
  return MakeGenerator(
      in, MakeList(in.budget(), slices),
      [slices, at = size_t{0}]() mutable -> std::optional<Value> {
        if (at >= slices.size()) return std::nullopt;
        return slices[at++];
      });
}

using Transform = std::function<Value(const Value&)>;

// map(attribute=..., default=...)
Transform AttributeTransform(Interpreter& in, const CallArguments& given) {
  const Value* attribute = nullptr;
  const Value* fallback = nullptr;
  for (const auto& [name, value] : given.named) {
    if (name == "attribute") {
      attribute = &value;
    } else if (name == "default") {
      fallback = value.IsNone() ? nullptr : &value;
    } else {
      throw Error(absl::StrCat("Unexpected keyword argument '", name, "'"));
    }
  }
  if (attribute == nullptr) throw Error("map requires a filter argument");
  const ItemGetter getter(in, *attribute, false, fallback);
  return [&in, getter](const Value& item) { return getter(in, item); };
}

// Returns what map does to an item.
Transform TransformOf(Interpreter& in, CallArguments given) {
  if (given.positional.empty()) return AttributeTransform(in, given);
  const std::string name = ToUtf8(Str(in, given.positional[0]));
  given.positional.erase(given.positional.begin());
  return [&in, name, given = std::move(given)](const Value& item) {
    const Step step(in.budget());
    return in.Filter(name, item, given);
  };
}

Value Map(Interpreter& in, const Value& subject, CallArguments given) {
  const auto transform = std::make_shared<Transform>();
  return MakeGenerator(
      in, subject,
      [&in, subject, given = std::move(given), transform,
       iterator = IteratorPtr()]() mutable -> std::optional<Value> {
        if (iterator == nullptr) {
          if (!IsTrue(subject)) return std::nullopt;
          *transform = TransformOf(in, given);
          iterator = in.Iterate(subject);
        }
        std::optional<Value> item = iterator->Next();
        if (!item.has_value()) return std::nullopt;
        return (*transform)(*item);
      });
}

using Predicate = std::function<bool(const Value&)>;

Predicate PredicateOf(Interpreter& in, CallArguments given, bool of_attribute) {
  Value attribute;
  if (of_attribute) {
    if (given.positional.empty()) {
      throw Error("Missing parameter for attribute name");
    }
    attribute = given.positional[0];
    given.positional.erase(given.positional.begin());
  }
  const ItemGetter getter(in, attribute, false);
  if (given.positional.empty()) {
    return
        [&in, getter](const Value& item) { return IsTrue(getter(in, item)); };
  }
  const std::string name = ToUtf8(Str(in, given.positional[0]));
  given.positional.erase(given.positional.begin());
  return [&in, getter, name, given = std::move(given)](const Value& item) {
    const Step step(in.budget());
    return in.Test(name, getter(in, item), given);
  };
}

// select, reject, selectattr and rejectattr.
template <bool kOfAttribute, bool kWanted>
Value Select(Interpreter& in, const Value& subject, CallArguments given) {
  const auto predicate = std::make_shared<Predicate>();
  return MakeGenerator(
      in, subject,
      [&in, subject, given = std::move(given), predicate,
       iterator = IteratorPtr()]() mutable -> std::optional<Value> {
        if (iterator == nullptr) {
          if (!IsTrue(subject)) return std::nullopt;
          *predicate = PredicateOf(in, given, kOfAttribute);
          iterator = in.Iterate(subject);
        }
        for (auto item = iterator->Next(); item.has_value();
             item = iterator->Next()) {
          if ((*predicate)(*item) == kWanted) return item;
        }
        return std::nullopt;
      });
}

constexpr std::pair<std::string_view, FilterFunction> kLazyFilters[] = {
    {"batch", Batch},
    {"items", ItemsFilter},
    {"map", Map},
    {"reject", Select<false, false>},
    {"rejectattr", Select<true, false>},
    {"select", Select<false, true>},
    {"selectattr", Select<true, true>},
    {"slice", SliceFilter},
    {"unique", Unique},
};

}  // namespace

FilterFunction FindLazyFilter(std::string_view name) {
  for (const auto& [known, filter] : kLazyFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace espalier::jinja
