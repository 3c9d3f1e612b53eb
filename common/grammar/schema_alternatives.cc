#include "common/grammar/schema_alternatives.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/grammar/schema_values.h"
#include "common/grammar/string_formats.h"
#include "common/grammar/work_budget.h"

namespace espalier::grammar {
namespace {

using Json = OrderedJson;

constexpr size_t kMaxAlternatives = 256;
constexpr int64_t kMaxSteps = 100'000;

// A schema that holds, and those that it holds by: it stands for them.
struct Item {
  const Json* schema;
  std::vector<const Json*> above = {};
};

// One of these holds, each of some schemas.
struct Choices {
  Item by;
  std::vector<Schemas> options;
};

struct State {
  Schemas alternative;
  std::deque<Item> open;
  std::deque<Choices> choices;
};

// Returns the dependencies of one name: it is absent, or they hold.
Choices DependencyOf(SchemaDocument& document, const Item& item,
                     const std::string& keyword, const std::string& name,
                     const Json& needed) {
  const Json& schema = *item.schema;
  const Json& absent =
      document.Add(schema, keyword, {{"properties", {{name, false}}}});
  Json names = Json::array({name});
  if (needed.is_array())
    names.insert(names.end(), needed.begin(), needed.end());
  const Json& present = document.Add(schema, keyword, {{"required", names}});
  Choices choices = {.by = item, .options = {{&absent}, {&present}}};
  if (!needed.is_array()) choices.options[1].push_back(&needed);
  return choices;
}

class Expansion {
 public:
  explicit Expansion(SchemaDocument& document) : document_(document) {}

  absl::Status Expand(State state) {
    while (!state.open.empty()) {
      Item item = std::move(state.open.front());
      state.open.pop_front();
      const Json& schema = *item.schema;
      if (schema.is_boolean()) {
        if (!schema.get<bool>()) return absl::OkStatus();
        continue;
      }
      SpendWork(10 * (1 + std::ssize(state.alternative)));
      if (++steps_ > kMaxSteps) return TooMany(schema);
      // It would stand for itself: such a value has no end.
      if (Has(item.above, item.schema)) return absl::OkStatus();
      if (Has(state.alternative, item.schema)) continue;
      state.alternative.push_back(item.schema);
      Open(item, state);
    }
    if (state.choices.empty()) {
      if (found_.size() == kMaxAlternatives) {
        return TooMany(*state.alternative.at(0));
      }
      found_.push_back(std::move(state.alternative));
      return absl::OkStatus();
    }
    const Choices choices = std::move(state.choices.front());
    state.choices.pop_front();
    for (const Schemas& option : choices.options) {
      State next = state;
      for (const Json* schema : option) {
        next.open.push_back(Below(choices.by, *schema));
      }
      RETURN_IF_ERROR(Expand(std::move(next)));
    }
    return absl::OkStatus();
  }

  std::vector<Schemas> Take() { return std::move(found_); }

 private:
  static bool Has(const Schemas& schemas, const Json* schema) {
    return std::find(schemas.begin(), schemas.end(), schema) != schemas.end();
  }

  static Item Below(const Item& item, const Json& schema) {
    Item below = {.schema = &schema, .above = item.above};
    below.above.push_back(item.schema);
    return below;
  }

  absl::Status TooMany(const Json& schema) const {
    return document_.Error(
        schema, "anyOf",
        absl::StrCat("more than ", kMaxAlternatives,
                     " ways to be valid under this and what is beside it"));
  }

  void Open(const Item& item, State& state) {
    const Json& schema = *item.schema;
    if (Member(schema, "$ref") != nullptr) {
      state.open.push_back(Below(item, document_.Target(schema)));
    }
    if (const Json* all = Member(schema, "allOf")) {
      for (const Json& part : *all) state.open.push_back(Below(item, part));
    }
    for (const char* keyword : {"anyOf", "oneOf"}) {
      const Json* parts = Member(schema, keyword);
      if (parts == nullptr) continue;
      Choices& choices = state.choices.emplace_back();
      choices.by = item;
      for (const Json& part : *parts) choices.options.push_back({&part});
    }
    for (const char* keyword :
         {"dependencies", "dependentRequired", "dependentSchemas"}) {
      const Json* all = Member(schema, keyword);
      if (all == nullptr) continue;
      for (const auto& [name, needed] : all->items()) {
        state.choices.push_back(
            DependencyOf(document_, item, keyword, name, needed));
      }
    }
  }

  SchemaDocument& document_;
  std::vector<Schemas> found_;
  int64_t steps_ = 0;
};

uint8_t TypeMeantBy(absl::string_view keyword) {
  static const std::pair<absl::string_view, uint8_t> kMeant[] = {
      {"properties", types::kObject},
      {"required", types::kObject},
      {"patternProperties", types::kObject},
      {"additionalProperties", types::kObject},
      {"propertyNames", types::kObject},
      {"minProperties", types::kObject},
      {"maxProperties", types::kObject},
      {"unevaluatedProperties", types::kObject},
      {"items", types::kArray},
      {"prefixItems", types::kArray},
      {"minItems", types::kArray},
      {"maxItems", types::kArray},
      {"uniqueItems", types::kArray},
      {"unevaluatedItems", types::kArray},
      {"minLength", types::kString},
      {"maxLength", types::kString},
      {"pattern", types::kString},
      {"minimum", types::kNumber},
      {"maximum", types::kNumber},
      {"exclusiveMinimum", types::kNumber},
      {"exclusiveMaximum", types::kNumber},
      {"multipleOf", types::kNumber}};
  for (const auto& [name, type] : kMeant) {
    if (name == keyword) return type;
  }
  return 0;
}

template <typename Better>
int64_t BestOf(const Schemas& alternative, const char* keyword,
               int64_t fallback, const Better& better) {
  for (const Json* schema : alternative) {
    const Json* value = Member(*schema, keyword);
    if (value == nullptr) continue;
    fallback = better(fallback, static_cast<int64_t>(value->get<double>()));
  }
  return fallback;
}

void Tighten(const Json& schema, const char* keyword, bool is_least,
             bool is_exclusive, std::optional<Bound>& bound) {
  const Json* value = Member(schema, keyword);
  if (value == nullptr) return;
  const auto number = DecimalOf(*value);
  if (!number) return;  // the document has no such number
  const bool is_same =
      bound && !Less(*number, bound->value) && !Less(bound->value, *number);
  if (is_same) {
    bound->is_exclusive = bound->is_exclusive || is_exclusive;
  } else if (!bound || (is_least ? Less(bound->value, *number)
                                 : Less(*number, bound->value))) {
    bound = {.value = *number, .is_exclusive = is_exclusive};
  }
}

}  // namespace

absl::StatusOr<std::vector<Schemas>> AlternativesOf(SchemaDocument& document,
                                                    const Schemas& schemas) {
  State state;
  for (const Json* schema : schemas) state.open.push_back({.schema = schema});
  Expansion expansion(document);
  RETURN_IF_ERROR(expansion.Expand(std::move(state)));
  return expansion.Take();
}

uint8_t DeclaredTypes(const Schemas& alternative) {
  uint8_t all = types::kAll;
  for (const Json* schema : alternative) {
    if (const Json* type = Member(*schema, "type")) all &= TypesOf(*type);
  }
  return all;
}

uint8_t MeantTypes(const Schemas& alternative) {
  if (With(alternative, "type") != nullptr) return DeclaredTypes(alternative);
  uint8_t meant = 0;
  for (const Json* schema : alternative) {
    for (const auto& [keyword, unused] : schema->items()) {
      meant |= TypeMeantBy(keyword);
    }
    const Json* format = Member(*schema, "format");
    if (format == nullptr) continue;
    meant |= IntegerFormatOf(format->get<std::string>()) ? types::kInteger
                                                         : types::kString;
  }
  return meant == 0 ? types::kAll : meant;
}

std::optional<std::vector<Json>> ValuesOf(const SchemaDocument& document,
                                          const Schemas& alternative) {
  std::vector<Json> values;
  if (const Json* schema = With(alternative, "const")) {
    values.push_back(*Member(*schema, "const"));
  } else if (const Json* list = With(alternative, "enum")) {
    for (const Json& value : *Member(*list, "enum")) values.push_back(value);
  } else {
    return std::nullopt;
  }
  std::erase_if(values, [&](const Json& value) {
    return std::any_of(
        alternative.begin(), alternative.end(),
        [&](const Json* schema) { return !IsValid(document, *schema, value); });
  });
  return values;
}

const Json* With(const Schemas& alternative, const char* keyword) {
  for (const Json* schema : alternative) {
    if (Member(*schema, keyword) != nullptr) return schema;
  }
  return nullptr;
}

int64_t LargestOf(const Schemas& alternative, const char* keyword,
                  int64_t fallback) {
  return BestOf(alternative, keyword, fallback,
                [](int64_t a, int64_t b) { return std::max(a, b); });
}

int64_t SmallestOf(const Schemas& alternative, const char* keyword,
                   int64_t fallback) {
  return BestOf(alternative, keyword, fallback, [](int64_t a, int64_t b) {
    return a == Expression::kUnbounded ? b : std::min(a, b);
  });
}

NumberRange RangeOf(const Schemas& alternative, bool is_integer) {
  NumberRange range = {.is_integer = is_integer};
  for (const Json* schema : alternative) {
    Tighten(*schema, "minimum", true, false, range.least);
    Tighten(*schema, "exclusiveMinimum", true, true, range.least);
    Tighten(*schema, "maximum", false, false, range.most);
    Tighten(*schema, "exclusiveMaximum", false, true, range.most);
    const Json* format = Member(*schema, "format");
    const auto bounds = format == nullptr
                            ? std::nullopt
                            : IntegerFormatOf(format->get<std::string>());
    if (bounds) {
      const Json both = {{"minimum", bounds->least}, {"maximum", bounds->most}};
      Tighten(both, "minimum", true, false, range.least);
      Tighten(both, "maximum", false, false, range.most);
      range.is_integer = true;
    }
    const Json* multiple = Member(*schema, "multipleOf");
    if (multiple == nullptr) continue;
    constexpr double kMax = 1e9;
    const double value = multiple->get<double>();
    if (value > kMax || TypeOfValue(*multiple) != types::kInteger) {
      range.multiple_of = 0;
      return range;
    }
    range.is_integer = true;
    range.multiple_of =
        std::lcm(range.multiple_of, static_cast<int64_t>(value));
    if (range.multiple_of > static_cast<int64_t>(kMax)) {
      range.multiple_of = 0;
      return range;
    }
  }
  return range;
}

Schemas PropertySchemas(const SchemaDocument& document,
                        const Schemas& alternative, const std::string& name) {
  Schemas all;
  for (const Json* schema : alternative) {
    const size_t before = all.size();
    if (const Json* properties = Member(*schema, "properties")) {
      if (const Json* property = Member(*properties, name)) {
        all.push_back(property);
      }
    }
    if (const Json* patterns = Member(*schema, "patternProperties")) {
      for (const auto& [pattern, property] : patterns->items()) {
        if (Finds(document.RegexOf(pattern), name)) all.push_back(&property);
      }
    }
    const Json* others = Member(*schema, "additionalProperties");
    if (all.size() == before && others != nullptr) all.push_back(others);
  }
  return all;
}

bool Forbids(const Schemas& schemas) {
  return std::any_of(schemas.begin(), schemas.end(), [](const Json* schema) {
    return schema->is_boolean() && !schema->get<bool>();
  });
}

std::vector<std::string> RequiredNames(const Schemas& alternative) {
  std::vector<std::string> names;
  for (const Json* schema : alternative) {
    const Json* required = Member(*schema, "required");
    if (required == nullptr) continue;
    for (const Json& name : *required) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name.get<std::string>());
      }
    }
  }
  return names;
}

}  // namespace espalier::grammar
