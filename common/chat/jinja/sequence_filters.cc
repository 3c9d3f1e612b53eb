// The filters of sequences and dicts.
#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/arguments.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/filters.h"
#include "common/chat/jinja/numbers.h"
#include "common/chat/jinja/operators.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

Value IgnoreCase(Interpreter& in, const Value& value) {
  return value.IsText() ? in.Text(Lower(value.characters())) : value;
}

// What `attribute` names in an item: "a.b.0", a number, or None for the item.
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

// Jinja's make_attrgetter. `fallback`: null: undefined stays.
class Getter {
 public:
  Getter(Interpreter& in, const Value& attribute, bool ignore_case,
         const Value* fallback = nullptr)
      : path_(PathOf(in, attribute)), ignore_case_(ignore_case) {
    if (fallback != nullptr) fallback_ = *fallback;
  }

  Value operator()(Interpreter& in, Value item) const {
    for (const Value& part : path_) {
      item = in.Item(item, part);
      if (item.IsUndefined() && fallback_.has_value()) item = *fallback_;
    }
    return ignore_case_ ? IgnoreCase(in, item) : item;
  }

 private:
  std::vector<Value> path_;
  bool ignore_case_;
  std::optional<Value> fallback_;
};

Value AttributeArgument(const Arguments& arguments, size_t index) {
  return arguments.Find(index) == nullptr ? Value() : *arguments.Find(index);
}

Value NewGenerator(Interpreter& in, const Value& source,
                   Generator::Function next, const char* type = "generator") {
  in.budget().SpendValue();
  return Value::Of(std::make_shared<Generator>(type, DepthAround({source}),
                                               std::move(next)));
}

// Sorts by keys, as sorted(key=...). Throws Error: keys that have no order.
std::vector<Value> Sorted(Interpreter& in, std::vector<Value> items,
                          const std::function<Value(const Value&)>& key_of,
                          bool reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    Value key = key_of(item);
    keyed.emplace_back(std::move(key), std::move(item));
  }
  // A reversed sort keeps the order of equal ones, too.
  std::stable_sort(keyed.begin(), keyed.end(),
                   [&](const auto& a, const auto& b) {
                     return reverse ? Less(in, b.first, a.first)
                                    : Less(in, a.first, b.first);
                   });
  items.clear();
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return items;
}

Value SortFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("sort", "reverse? case_sensitive? attribute?",
                            std::move(given));
  const bool ignore_case = !arguments.TruthOr(1, false);
  const Value attribute = AttributeArgument(arguments, 2);
  std::vector<Getter> getters;
  if (attribute.IsText()) {
    const Characters& text = attribute.characters();
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(Find(in, text, U",", at), text.size());
      getters.emplace_back(in, in.Text(text.substr(at, end - at)), ignore_case);
      at = end + 1;
    }
  } else {
    getters.emplace_back(in, attribute, ignore_case);
  }
  return MakeList(in.budget(),
                  Sorted(in, in.Items(subject),
                         [&](const Value& item) {
                           std::vector<Value> keys;
                           for (const Getter& getter : getters) {
                             keys.push_back(getter(in, item));
                           }
                           return MakeList(in.budget(), std::move(keys));
                         },
                         arguments.TruthOr(0, false)));
}

const Dict& DictOf(const Value& subject, const char* filter) {
  RequireDefined(subject);
  if (subject.IsDict()) return subject.dict();
  throw Error(absl::StrCat("'", TypeName(subject), "' object has no attribute '",
                           filter, "'"));
}

std::vector<Value> PairsOf(Interpreter& in, const Dict& dict) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict.items()) {
    pairs.push_back(MakeTuple(in.budget(), {key, value}));
  }
  return pairs;
}

Value DictSort(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("dictsort", "case_sensitive? by? reverse?",
                            std::move(given));
  size_t position = 0;
  if (arguments.Find(1) != nullptr) {
    const Characters by = Str(in, arguments.At(1));
    if (!Is(by, "key") && !Is(by, "value")) {
      throw Error("You can only sort by either \"key\" or \"value\"");
    }
    position = Is(by, "value") ? 1 : 0;
  }
  const bool case_sensitive = arguments.TruthOr(0, false);
  return MakeList(
      in.budget(),
      Sorted(in, PairsOf(in, DictOf(subject, "items")),
             [&](const Value& pair) {
               const Value& key = pair.items()[position];
               return case_sensitive ? key : IgnoreCase(in, key);
             },
             arguments.TruthOr(2, false)));
}

Value ItemsFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("items", "", std::move(given));
  if (!subject.IsDict() && !subject.IsUndefined()) {
    throw Error("Can only get item pairs from a mapping.");
  }
  return NewGenerator(
      in, subject,
      [&in, subject, at = size_t{0}]() mutable -> std::optional<Value> {
        if (subject.IsUndefined()) return std::nullopt;
        if (at >= subject.dict().items().size()) return std::nullopt;
        const auto& [key, value] = subject.dict().items()[at++];
        return MakeTuple(in.budget(), {key, value});
      });
}

Value Default(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("default", "default_value? boolean?",
                            std::move(given));
  const bool takes = subject.IsUndefined() ||
                     (arguments.TruthOr(1, false) && !IsTrue(subject));
  if (!takes) return subject;
  return arguments.Find(0) == nullptr ? in.Text("") : *arguments.Find(0);
}

Value Join(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("join", "d? attribute?", std::move(given));
  Characters separator;
  if (arguments.Find(0) != nullptr) separator = Str(in, arguments.At(0));
  const Getter getter(in, AttributeArgument(arguments, 1), false);
  const IteratorPtr iterator = in.Iterate(subject);
  Characters text;
  bool first = true;
  for (auto item = iterator->Next(); item.has_value();
       item = iterator->Next()) {
    if (!first) {
      in.budget().SpendCharacters(separator.size());
      text.append(separator);
    }
    first = false;
    text.append(Str(in, getter(in, *std::move(item))));
  }
  return in.Text(std::move(text));
}

Value Length(Interpreter&, const Value& subject, CallArguments given) {
  const Arguments arguments("length", "", std::move(given));
  size_t size = 0;
  if (subject.IsText()) {
    size = subject.characters().size();
  } else if (subject.IsSequence()) {
    size = subject.items().size();
  } else if (subject.IsDict()) {
    size = subject.dict().items().size();
  } else if (subject.IsObject() && subject.object()->Length().has_value()) {
    return Value::Integer(*subject.object()->Length());
  } else if (!subject.IsUndefined()) {
    throw Error(absl::StrCat("object of type '", TypeName(subject),
                             "' has no len()"));
  }
  return Value::Integer(static_cast<Int>(size));
}

Value First(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("first", "", std::move(given));
  std::optional<Value> first = in.Iterate(subject)->Next();
  if (first.has_value()) return *std::move(first);
  return Value::Undefined("No first item, sequence was empty.");
}

// Whether reversed(value) works.
bool IsReversible(const Value& value) {
  if (value.IsText() || value.IsSequence() || value.IsDict()) return true;
  return value.IsObject() &&
         (dynamic_cast<Range*>(value.object().get()) != nullptr ||
          dynamic_cast<DictView*>(value.object().get()) != nullptr);
}

Value Last(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("last", "", std::move(given));
  if (subject.IsUndefined()) RequireDefined(subject);
  if (!IsReversible(subject)) {
    throw Error(
        absl::StrCat("'", TypeName(subject), "' object is not reversible"));
  }
  if (subject.IsText() && !subject.characters().empty()) {
    return in.Text(Characters(1, subject.characters().back()));
  }
  std::vector<Value> items = in.Items(subject);
  if (items.empty()) {
    return Value::Undefined("No last item, sequence was empty.");
  }
  return std::move(items.back());
}

Value ListFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("list", "", std::move(given));
  return MakeList(in.budget(), in.Items(subject));
}

Value Reverse(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("reverse", "", std::move(given));
  if (subject.IsText()) {
    Characters text = subject.characters();
    std::reverse(text.begin(), text.end());
    return MakeText(in.budget(), std::move(text), subject.IsMarkup());
  }
  if (in.IterateOrNull(subject) == nullptr) {
    throw Error("argument must be iterable");
  }
  std::vector<Value> items = in.Items(subject);
  std::reverse(items.begin(), items.end());
  if (!IsReversible(subject)) return MakeList(in.budget(), std::move(items));
  return NewGenerator(
      in, subject,
      [items = std::move(items),
       at = size_t{0}]() mutable -> std::optional<Value> {
        if (at >= items.size()) return std::nullopt;
        return items[at++];
      },
      "list_reverseiterator");
}

Value Unique(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("unique", "case_sensitive? attribute?",
                            std::move(given));
  const Getter getter(in, AttributeArgument(arguments, 1),
                      !arguments.TruthOr(0, false));
  const auto seen = std::make_shared<Dict>();
  return NewGenerator(
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

template <bool kMax>
Value Extreme(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("min", "case_sensitive? attribute?",
                            std::move(given));
  const Getter getter(in, AttributeArgument(arguments, 1),
                      !arguments.TruthOr(0, false));
  const std::vector<Value> items = in.Items(subject);
  if (items.empty()) {
    return Value::Undefined("No aggregated item, sequence was empty.");
  }
  size_t best = 0;
  Value best_key = getter(in, items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = getter(in, items[i]);
    if (kMax ? Less(in, best_key, key) : Less(in, key, best_key)) {
      best = i;
      best_key = std::move(key);
    }
  }
  return items[best];
}

Value Sum(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("sum", "attribute? start?", std::move(given));
  const Getter getter(in, AttributeArgument(arguments, 0), false);
  Value sum =
      arguments.Find(1) == nullptr ? Value::Integer(0) : *arguments.Find(1);
  if (sum.IsText()) throw Error("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : in.Items(subject)) {
    sum = Arithmetic(in, "+", sum, getter(in, item));
  }
  return sum;
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
  return NewGenerator(
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
  return NewGenerator(
      in, MakeList(in.budget(), slices),
      [slices, at = size_t{0}]() mutable -> std::optional<Value> {
        if (at >= slices.size()) return std::nullopt;
        return slices[at++];
      });
}

Value GroupBy(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("groupby", "attribute default? case_sensitive?",
                            std::move(given));
  const Value* fallback = arguments.FindSome(1);
  const bool ignore_case = !arguments.TruthOr(2, false);
  const Getter key_of(in, arguments.At(0), ignore_case, fallback);
  const Getter shown_key(in, arguments.At(0), false, fallback);
  const std::vector<Value> items =
      Sorted(in, in.Items(subject),
             [&](const Value& item) { return key_of(in, item); }, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < items.size();) {
    const Value key = key_of(in, items[begin]);
    size_t end = begin + 1;
    while (end < items.size() &&
           Equal(in.budget(), key_of(in, items[end]), key)) {
      ++end;
    }
    std::vector<Value> members(items.begin() + static_cast<long>(begin),
                               items.begin() + static_cast<long>(end));
    groups.push_back(MakeSequence(
        in.budget(),
        {shown_key(in, items[begin]),
         MakeList(in.budget(), std::move(members))},
        Sequence::Kind::kGroup));
    begin = end;
  }
  return MakeList(in.budget(), std::move(groups));
}

Value AttrFilter(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("attr", "name", std::move(given));
  RequireDefined(subject);
  const std::string name = ToUtf8(arguments.TextAt(0));
  // An item of a dict is no attribute.
  Value found = in.Attribute(subject, name);
  if (subject.IsDict() &&
      subject.dict().Find(in.budget(), arguments.At(0)) != nullptr &&
      !found.IsObject()) {
    return Value::Undefined(absl::StrCat("'", ObjectTypeName(subject),
                                         "' has no attribute '", name, "'"));
  }
  return found;
}

using Transform = std::function<Value(const Value&)>;

// What map does to an item.
Transform TransformOf(Interpreter& in, CallArguments given) {
  if (given.positional.empty()) {
    const Arguments arguments("map", "attribute? default? /",
                              [&] {
                                CallArguments ordered;
                                ordered.positional = {Value(), Value()};
                                bool any = false;
                                for (auto& [name, value] : given.named) {
                                  any = any || name == "attribute";
                                  if (name == "attribute") {
                                    ordered.positional[0] = value;
                                  } else if (name == "default") {
                                    ordered.positional[1] = value;
                                  } else {
                                    throw Error(absl::StrCat(
                                        "Unexpected keyword argument '", name,
                                        "'"));
                                  }
                                }
                                if (!any) {
                                  throw Error("map requires a filter argument");
                                }
                                return ordered;
                              }());
    const Getter getter(in, arguments.At(0), false, arguments.FindSome(1));
    return [&in, getter](const Value& item) { return getter(in, item); };
  }
  const std::string name = ToUtf8(Str(in, given.positional[0]));
  given.positional.erase(given.positional.begin());
  return [&in, name, given = std::move(given)](const Value& item) {
    const Step step(in.budget());
    return in.Filter(name, item, given);
  };
}

Value Map(Interpreter& in, const Value& subject, CallArguments given) {
  const auto transform = std::make_shared<Transform>();
  return NewGenerator(
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
  const Getter getter(in, attribute, false);
  if (given.positional.empty()) {
    return [&in, getter](const Value& item) {
      return IsTrue(getter(in, item));
    };
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
  return NewGenerator(
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

constexpr std::pair<std::string_view, FilterFunction> kSequenceFilters[] = {
    {"attr", AttrFilter},
    {"batch", Batch},
    {"count", Length},
    {"d", Default},
    {"default", Default},
    {"dictsort", DictSort},
    {"first", First},
    {"groupby", GroupBy},
    {"items", ItemsFilter},
    {"join", Join},
    {"last", Last},
    {"length", Length},
    {"list", ListFilter},
    {"map", Map},
    {"max", Extreme<true>},
    {"min", Extreme<false>},
    {"reject", Select<false, false>},
    {"rejectattr", Select<true, false>},
    {"reverse", Reverse},
    {"select", Select<false, true>},
    {"selectattr", Select<true, true>},
    {"slice", SliceFilter},
    {"sort", SortFilter},
    {"sum", Sum},
    {"unique", Unique},
};

}  // namespace

FilterFunction FindSequenceFilter(std::string_view name) {
  for (const auto& [known, filter] : kSequenceFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

FilterFunction FindFilter(std::string_view name) {
  const FilterFunction filter = FindSequenceFilter(name);
  return filter != nullptr ? filter : FindTextFilter(name);
}

}  // namespace espalier::jinja
