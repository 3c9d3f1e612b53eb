#include "common/grammar/schema_values.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_format.h"
#include "common/grammar/string_formats.h"
#include "common/grammar/work_budget.h"
#include "common/json/ordered_json.h"

namespace espalier::grammar {
namespace {

using Json = OrderedJson;

uint8_t TypeNamed(absl::string_view name) {
  if (name == "null") return types::kNull;
  if (name == "boolean") return types::kBoolean;
  if (name == "object") return types::kObject;
  if (name == "array") return types::kArray;
  if (name == "string") return types::kString;
  if (name == "integer") return types::kInteger;
  return types::kNumber;
}

// Checks one value; a schema's answer for it is known while it is asked for.
class Validator {
 public:
  explicit Validator(const SchemaDocument& document) : document_(document) {}

  bool Check(const Json& schema, const Json& value) {
    SpendWork(10 * (1 + std::ssize(open_)));
    if (schema.is_boolean()) return schema.get<bool>();
    // References may come back to a schema: it then says nothing new.
    const auto asked = std::make_pair(&schema, &value);
    if (std::find(open_.begin(), open_.end(), asked) != open_.end()) {
      return true;
    }
    open_.push_back(asked);
    const bool is_valid = Applicators(schema, value) &&
                          Scalars(schema, value) && Objects(schema, value) &&
                          Arrays(schema, value);
    open_.pop_back();
    return is_valid;
  }

 private:
  bool Applicators(const Json& schema, const Json& value) {
    if (Member(schema, "$ref") != nullptr &&
        !Check(document_.Target(schema), value)) {
      return false;
    }
    const auto count = [&](const Json& list) {
      return std::count_if(list.begin(), list.end(), [&](const Json& part) {
        return Check(part, value);
      });
    };
    const Json* all = Member(schema, "allOf");
    const Json* any = Member(schema, "anyOf");
    const Json* one = Member(schema, "oneOf");
    return (all == nullptr || count(*all) == std::ssize(*all)) &&
           (any == nullptr || count(*any) > 0) &&
           (one == nullptr || count(*one) == 1);
  }

  bool Scalars(const Json& schema, const Json& value) {
    const uint8_t type = TypeOfValue(value);
    if (const Json* wanted = Member(schema, "type");
        wanted != nullptr && (TypesOf(*wanted) & type) == 0) {
      return false;
    }
    if (const Json* exact = Member(schema, "const");
        exact != nullptr && !AreEqual(*exact, value)) {
      return false;
    }
    if (const Json* list = Member(schema, "enum");
        list != nullptr &&
        std::none_of(list->begin(), list->end(), [&](const Json& listed) {
          return AreEqual(listed, value);
        })) {
      return false;
    }
    if ((type & types::kNumber) != 0) return NumberFits(schema, value);
    return type != types::kString || StringFits(schema, value);
  }

  static bool NumberFits(const Json& schema, const Json& value) {
    const auto number = DecimalOf(value);
    if (!number) return false;
    const auto bound = [&](const char* name) {
      const Json* found = Member(schema, name);
      return found == nullptr ? std::nullopt : DecimalOf(*found);
    };
    if (const auto least = bound("minimum"); least && Less(*number, *least)) {
      return false;
    }
    if (const auto most = bound("maximum"); most && Less(*most, *number)) {
      return false;
    }
    if (const auto least = bound("exclusiveMinimum");
        least && !Less(*least, *number)) {
      return false;
    }
    if (const auto most = bound("exclusiveMaximum");
        most && !Less(*number, *most)) {
      return false;
    }
    const Json* multiple = Member(schema, "multipleOf");
    if (multiple == nullptr) return true;
    const double times = value.get<double>() / multiple->get<double>();
    return times == std::floor(times);
  }

  bool StringFits(const Json& schema, const Json& value) {
    const auto& text = value.get_ref<const std::string&>();
    const auto characters = CharactersOf(text);
    if (!characters) return false;
    if (!CountFits(schema, "minLength", "maxLength", std::ssize(*characters))) {
      return false;
    }
    if (const Json* pattern = Member(schema, "pattern");
        pattern != nullptr &&
        !Finds(document_.RegexOf(pattern->get<std::string>()), text)) {
      return false;
    }
    const Json* format = Member(schema, "format");
    if (format == nullptr) return true;
    const ExpressionPtr strings = FormatOf(format->get<std::string>());
    return strings == nullptr || Matches(strings, text);
  }

  static bool CountFits(const Json& schema, const char* least, const char* most,
                        int64_t count) {
    const Json* fewest = Member(schema, least);
    const Json* largest = Member(schema, most);
    const auto number = static_cast<double>(count);
    return (fewest == nullptr || number >= fewest->get<double>()) &&
           (largest == nullptr || number <= largest->get<double>());
  }

  bool Objects(const Json& schema, const Json& value) {
    if (!value.is_object()) return true;
    if (!CountFits(schema, "minProperties", "maxProperties",
                   static_cast<int64_t>(value.size()))) {
      return false;
    }
    const auto has = [&](const Json& name) {
      return value.contains(name.get_ref<const std::string&>());
    };
    const Json* required = Member(schema, "required");
    if (required != nullptr &&
        !std::all_of(required->begin(), required->end(), has)) {
      return false;
    }
    for (const auto& [name, member] : value.items()) {
      if (!PropertyFits(schema, name, member)) return false;
    }
    for (const char* keyword :
         {"dependencies", "dependentRequired", "dependentSchemas"}) {
      const Json* all = Member(schema, keyword);
      if (all == nullptr) continue;
      for (const auto& [name, needed] : all->items()) {
        if (!value.contains(name)) continue;
        if (needed.is_array() ? !std::all_of(needed.begin(), needed.end(), has)
                              : !Check(needed, value)) {
          return false;
        }
      }
    }
    return true;
  }

  bool PropertyFits(const Json& schema, const std::string& name,
                    const Json& member) {
    if (const Json* names = Member(schema, "propertyNames");
        names != nullptr && !Check(*names, Json(name))) {
      return false;
    }
    bool is_named = false;
    if (const Json* properties = Member(schema, "properties")) {
      if (const Json* property = Member(*properties, name)) {
        is_named = true;
        if (!Check(*property, member)) return false;
      }
    }
    if (const Json* patterns = Member(schema, "patternProperties")) {
      for (const auto& [pattern, property] : patterns->items()) {
        if (!Finds(document_.RegexOf(pattern), name)) continue;
        is_named = true;
        if (!Check(property, member)) return false;
      }
    }
    const Json* others = Member(schema, "additionalProperties");
    return is_named || others == nullptr || Check(*others, member);
  }

  bool Arrays(const Json& schema, const Json& value) {
    if (!value.is_array()) return true;
    if (!CountFits(schema, "minItems", "maxItems", std::ssize(value))) {
      return false;
    }
    for (size_t i = 0; i < value.size(); ++i) {
      const Json* item = ItemSchema(schema, i);
      if (item != nullptr && !Check(*item, value[i])) return false;
    }
    return true;
  }

  const SchemaDocument& document_;
  std::vector<std::pair<const Json*, const Json*>> open_;
};

}  // namespace

uint8_t TypesOf(const Json& type) {
  if (type.is_string()) return TypeNamed(type.get_ref<const std::string&>());
  uint8_t all = 0;
  for (const Json& one : type) all |= TypesOf(one);
  return all;
}

uint8_t TypeOfValue(const Json& value) {
  if (value.is_null()) return types::kNull;
  if (value.is_boolean()) return types::kBoolean;
  if (value.is_object()) return types::kObject;
  if (value.is_array()) return types::kArray;
  if (value.is_string()) return types::kString;
  const bool is_integer =
      value.is_number_integer() ||
      value.get<double>() == std::floor(value.get<double>());
  return is_integer ? types::kInteger : types::kFraction;
}

std::optional<Decimal> DecimalOf(const Json& number) {
  // Its shortest text would be another integer.
  const bool is_rounded =
      number.is_number_float() && std::abs(number.get<double>()) >= 0x1p53;
  if (!is_rounded) return ParseDecimal(ToText(number));
  return ParseDecimal(absl::StrFormat("%.0f", number.get<double>()));
}

bool AreEqual(const Json& a, const Json& b) {
  if (a.is_object() && b.is_object()) {
    return a.size() == b.size() &&
           std::all_of(
               a.items().begin(), a.items().end(), [&](const auto& member) {
                 const Json* other = Member(b, member.key());
                 return other != nullptr && AreEqual(member.value(), *other);
               });
  }
  if (a.is_array() && b.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), AreEqual);
  }
  if (a.is_number() && b.is_number()) {
    const auto x = DecimalOf(a), y = DecimalOf(b);
    if (x && y) return !Less(*x, *y) && !Less(*y, *x);
  }
  return a == b;
}

bool IsValid(const SchemaDocument& document, const Json& schema,
             const Json& value) {
  return Validator(document).Check(schema, value);
}

const Json* ItemSchema(const Json& schema, size_t index) {
  const Json* items = Member(schema, "items");
  const Json* prefix = Member(schema, "prefixItems");
  const Json* rest = items;
  if (items != nullptr && items->is_array()) {
    prefix = items;
    rest = Member(schema, "additionalItems");
  }
  if (prefix != nullptr && index < prefix->size()) return &(*prefix)[index];
  return rest;
}

}  // namespace espalier::grammar
