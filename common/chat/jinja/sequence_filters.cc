// The filters of sequences and dicts.
#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/arguments.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/filters.h"
#include "common/chat/jinja/item_getter.h"
#include "common/chat/jinja/operators.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

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
  std::vector<ItemGetter> getters;
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
  return MakeList(in.budget(), Sorted(
                                   in, in.Items(subject),
                                   [&](const Value& item) {
                                     std::vector<Value> keys;
                                     for (const ItemGetter& getter : getters) {
                                       keys.push_back(getter(in, item));
                                     }
                                     return MakeList(in.budget(),
                                                     std::move(keys));
                                   },
                                   arguments.TruthOr(0, false)));
}

const Dict& DictOf(const Value& subject, const char* filter) {
  RequireDefined(subject);
  if (subject.IsDict()) return subject.dict();
  throw Error(absl::StrCat("'", TypeName(subject),
                           "' object has no attribute '", filter, "'"));
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
  return MakeList(in.budget(),
                  Sorted(
                      in, PairsOf(in, DictOf(subject, "items")),
                      [&](const Value& pair) {
                        const Value& key = pair.items()[position];
                        return case_sensitive ? key : IgnoreCase(in, key);
                      },
                      arguments.TruthOr(2, false)));
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
  const ItemGetter getter(in, AttributeArgument(arguments, 1), false);
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

Value LengthFilter(Interpreter&, const Value& subject, CallArguments given) {
  const Arguments arguments("length", "", std::move(given));
  return Value::Integer(Length(subject));
}

Value First(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("first", "", std::move(given));
  std::optional<Value> first = in.Iterate(subject)->Next();
  if (first.has_value()) return *std::move(first);
  return Value::Undefined("No first item, sequence was empty.");
}

// Returns whether reversed(value) works.
bool IsReversible(const Value& value) {
  if (value.IsText() || value.IsSequence() || value.IsDict()) return true;
  return value.IsObject() &&
         (dynamic_cast<Range*>(value.object().get()) != nullptr ||
          dynamic_cast<DictView*>(value.object().get()) != nullptr);
}

Value Last(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("last", "", std::move(given));
  if (!IsReversible(subject) && !subject.IsUndefined()) {
    throw Error(
        absl::StrCat("'", TypeName(subject), "' object is not reversible"));
  }
  if (subject.IsText() && !subject.characters().empty()) {
    return in.Text(Characters(1, subject.characters().back()));
  }
  if (subject.IsUndefined()) {
    return Value::Undefined("No last item, sequence was empty.");
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
  return MakeGenerator(
      in, subject,
      [items = std::move(items),
       at = size_t{0}]() mutable -> std::optional<Value> {
        if (at >= items.size()) return std::nullopt;
        return items[at++];
      },
      "list_reverseiterator");
}

template <bool kMax>
Value Extreme(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("min", "case_sensitive? attribute?",
                            std::move(given));
  const ItemGetter getter(in, AttributeArgument(arguments, 1),
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
  const ItemGetter getter(in, AttributeArgument(arguments, 0), false);
  Value sum =
      arguments.Find(1) == nullptr ? Value::Integer(0) : *arguments.Find(1);
  if (sum.IsText())
    throw Error("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : in.Items(subject)) {
    sum = Arithmetic(in, "+", sum, getter(in, item));
  }
  return sum;
}

Value GroupBy(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("groupby", "attribute default? case_sensitive?",
                            std::move(given));
  const Value* fallback = arguments.FindSome(1);
  const bool ignore_case = !arguments.TruthOr(2, false);
  const ItemGetter key_of(in, arguments.At(0), ignore_case, fallback);
  const ItemGetter shown_key(in, arguments.At(0), false, fallback);
  const std::vector<Value> items = Sorted(
      in, in.Items(subject),
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
    groups.push_back(MakeSequence(in.budget(),
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

constexpr std::pair<std::string_view, FilterFunction> kSequenceFilters[] = {
    {"attr", AttrFilter},    {"count", LengthFilter},
    {"d", Default},          {"default", Default},
    {"dictsort", DictSort},  {"first", First},
    {"groupby", GroupBy},    {"join", Join},
    {"last", Last},          {"length", LengthFilter},
    {"list", ListFilter},    {"max", Extreme<true>},
    {"min", Extreme<false>}, {"reverse", Reverse},
    {"sort", SortFilter},    {"sum", Sum},
};

}  // namespace

FilterFunction FindSequenceFilter(std::string_view name) {
  for (const auto& [known, filter] : kSequenceFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

FilterFunction FindFilter(std::string_view name) {
  FilterFunction filter = FindSequenceFilter(name);
  if (filter == nullptr) filter = FindLazyFilter(name);
  return filter != nullptr ? filter : FindTextFilter(name);
}

}  // namespace espalier::jinja
