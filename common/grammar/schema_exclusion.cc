#include "common/grammar/schema_exclusion.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/grammar/schema_values.h"

namespace espalier::grammar {
namespace {

using Json = OrderedJson;

constexpr int kMaxExclusionDepth = 3;

// Whether what is made of `made` is never valid under `other`.
class Exclusion {
 public:
  explicit Exclusion(SchemaDocument& document) : document_(document) {}

  absl::StatusOr<bool> ExcludesPart(const Schemas& made, const Json& other) {
    ASSIGN_OR_RETURN(const auto ways, AlternativesOf(document_, {&other}));
    for (const Schemas& way : ways) {
      ASSIGN_OR_RETURN(const bool excludes, ExcludesWay(made, way, 0));
      if (!excludes) return false;
    }
    return true;
  }

 private:
  absl::StatusOr<bool> Excludes(const Schemas& made, const Schemas& other,
                                int depth) {
    if (depth > kMaxExclusionDepth) return false;
    ASSIGN_OR_RETURN(const auto made_ways, AlternativesOf(document_, made));
    ASSIGN_OR_RETURN(const auto other_ways, AlternativesOf(document_, other));
    for (const Schemas& a : made_ways) {
      for (const Schemas& b : other_ways) {
        ASSIGN_OR_RETURN(const bool excludes, ExcludesWay(a, b, depth));
        if (!excludes) return false;
      }
    }
    return true;
  }

  absl::StatusOr<bool> ExcludesWay(const Schemas& made, const Schemas& other,
                                   int depth) {
    if (const auto values = ValuesOf(document_, made)) {
      return std::none_of(
          values->begin(), values->end(), [&](const Json& value) {
            return std::all_of(other.begin(), other.end(),
                               [&](const Json* schema) {
                                 return IsValid(document_, *schema, value);
                               });
          });
    }
    uint8_t common = MeantTypes(made) & DeclaredTypes(other);
    if (const auto values = ValuesOf(document_, other)) {
      uint8_t of_values = 0;
      for (const Json& value : *values) of_values |= TypeOfValue(value);
      common &= of_values;
    }
    constexpr uint8_t kComparable =
        types::kObject | types::kNumber | types::kArray;
    if ((common & ~kComparable) != 0) return false;
    if ((common & types::kNumber) != 0 && !RangesAreApart(made, other)) {
      return false;
    }
    if ((common & types::kArray) != 0 && !ListsAreApart(made, other)) {
      return false;
    }
    if ((common & types::kObject) == 0) return true;
    return ObjectsAreApart(made, other, depth);
  }

  static bool RangesAreApart(const Schemas& made, const Schemas& other) {
    const NumberRange a = RangeOf(made, false), b = RangeOf(other, false);
    const auto is_below = [](const std::optional<Bound>& most,
                             const std::optional<Bound>& least) {
      if (!most || !least) return false;
      return Less(most->value, least->value) ||
             (!Less(least->value, most->value) &&
              (most->is_exclusive || least->is_exclusive));
    };
    return is_below(a.most, b.least) || is_below(b.most, a.least);
  }

  static bool ListsAreApart(const Schemas& made, const Schemas& other) {
    constexpr int64_t kMany = int64_t{1} << 40;
    const auto least = [](const Schemas& schemas) {
      return LargestOf(schemas, "minItems", 0);
    };
    const auto most = [](const Schemas& schemas) {
      return SmallestOf(schemas, "maxItems", kMany);
    };
    return most(made) < least(other) || most(other) < least(made);
  }

  absl::StatusOr<bool> ObjectsAreApart(const Schemas& made,
                                       const Schemas& other, int depth) {
    const auto made_names = RequiredNames(made);
    for (const std::string& name : made_names) {
      const Schemas there = PropertySchemas(document_, other, name);
      if (Forbids(there)) return true;
      if (there.empty()) continue;
      ASSIGN_OR_RETURN(
          const bool excludes,
          Excludes(PropertySchemas(document_, made, name), there, depth + 1));
      if (excludes) return true;
    }
    for (const std::string& name : RequiredNames(other)) {
      if (Forbids(PropertySchemas(document_, made, name))) return true;
    }
    return false;
  }

  SchemaDocument& document_;
};

}  // namespace

absl::Status CheckOneOf(SchemaDocument& document, const Json& schema,
                        const Schemas& alternative) {
  const Json& parts = *Member(schema, "oneOf");
  Exclusion exclusion(document);
  int64_t chosen = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_chosen = std::find(alternative.begin(), alternative.end(),
                                     &parts[i]) != alternative.end();
    if (is_chosen && ++chosen == 1) continue;
    ASSIGN_OR_RETURN(const bool excludes,
                     exclusion.ExcludesPart(alternative, parts[i]));
    if (!is_chosen && excludes) continue;
    return document.Error(
        schema, "oneOf",
        absl::StrCat("a value may be valid under part ", i,
                     " and another: use "
                     "anyOf, or a property that is a different const in each"));
  }
  return absl::OkStatus();
}

}  // namespace espalier::grammar
