// Objects and arrays of a schema's grammar.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/grammar/schema_builder.h"
#include "common/grammar/schema_values.h"

namespace espalier::grammar {
namespace {

using Json = OrderedJson;

constexpr int64_t kAny = Expression::kUnbounded;
// Fewer names than this are counted.
constexpr size_t kMaxCountedNames = 32;

// Returns whether a schema of the alternative has this Boolean value.
bool Says(const Schemas& alternative, const char* keyword, bool value) {
  return std::any_of(alternative.begin(), alternative.end(),
                     [&](const Json* schema) {
                       const Json* said = Member(*schema, keyword);
                       return said != nullptr && *said == value;
                     });
}

// Returns the number of first items that have schemas of their own.
size_t FixedItems(const Schemas& alternative) {
  size_t fixed = 0;
  for (const Json* schema : alternative) {
    const Json* items = Member(*schema, "items");
    const Json* prefix = items != nullptr && items->is_array()
                             ? items
                             : Member(*schema, "prefixItems");
    if (prefix != nullptr) fixed = std::max(fixed, prefix->size());
  }
  return fixed;
}

Schemas ItemSchemas(const Schemas& alternative, size_t index) {
  Schemas schemas;
  for (const Json* schema : alternative) {
    const Json* item = ItemSchema(*schema, index);
    if (item != nullptr) schemas.push_back(item);
  }
  return schemas;
}

class ObjectBuilder {
 public:
  ObjectBuilder(SchemaBuilder& builder, const Schemas& alternative)
      : builder_(builder),
        document_(builder.document()),
        json_(builder.json()),
        alternative_(alternative) {}

  absl::StatusOr<ExpressionPtr> Build() {
    required_ = RequiredNames(alternative_);
    RETURN_IF_ERROR(AddMembers());
    for (const std::string& name : required_) {
      const bool is_there =
          std::any_of(members_.begin(), members_.end(),
                      [&](const OneMember& m) { return m.name == name; });
      if (!is_there) return Never();  // it is forbidden
    }
    ASSIGN_OR_RETURN(extra_, Extra());
    least_ = LargestOf(alternative_, "minProperties", 0);
    most_ = SmallestOf(alternative_, "maxProperties", kAny);
    RETURN_IF_ERROR(CheckCounts());
    const auto first = std::find_if(
        members_.begin(), members_.end(),
        [](const OneMember& member) { return member.is_required; });
    first_required_ = static_cast<size_t>(first - members_.begin());
    return Sequence({Text("{"), json_.Blank(), After(0, 0), Text("}")});
  }

 private:
  struct OneMember {
    std::string name;
    bool is_required;
    ExpressionPtr text;
  };

  // Adds the members that are named, without those that are forbidden.
  absl::Status AddMembers() {
    for (const Json* schema : alternative_) {
      const Json* properties = Member(*schema, "properties");
      if (properties == nullptr) continue;
      for (const auto& [name, unused] : properties->items()) AddName(name);
    }
    const size_t declared = names_.size();
    for (const std::string& name : required_) AddName(name);
    for (size_t i = 0; i < names_.size(); ++i) {
      const std::string& name = names_[i];
      const Schemas schemas = PropertySchemas(document_, alternative_, name);
      const bool is_unevaluated =
          i >= declared && schemas.empty() &&
          Says(alternative_, "unevaluatedProperties", false);
      if (Forbids(schemas) || is_unevaluated || !NameFits(name)) continue;
      const bool is_required = std::find(required_.begin(), required_.end(),
                                         name) != required_.end();
      members_.push_back({name, is_required,
                          Sequence({json_.Literal(name), json_.Colon(),
                                    builder_.ValueOf(schemas)})});
    }
    return absl::OkStatus();
  }

  void AddName(const std::string& name) {
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) {
      names_.push_back(name);
    }
  }

  bool NameFits(const std::string& name) const {
    return std::all_of(
        alternative_.begin(), alternative_.end(), [&](const Json* schema) {
          const Json* names = Member(*schema, "propertyNames");
          return names == nullptr || IsValid(document_, *names, Json(name));
        });
  }

  // Returns a member whose name is not named; Never: there is none.
  absl::StatusOr<ExpressionPtr> Extra() {
    const Json* patterns = With(alternative_, "patternProperties");
    const Json* key_schema = With(alternative_, "propertyNames");
    if (patterns != nullptr) {
      if (key_schema != nullptr) {
        return document_.Error(*key_schema, "propertyNames",
                               "is not supported beside patternProperties");
      }
      return PatternExtra();
    }
    const bool has_free = std::any_of(
        alternative_.begin(), alternative_.end(), [](const Json* schema) {
          return Member(*schema, "additionalProperties") != nullptr;
        });
    const bool is_closed =
        Says(alternative_, "additionalProperties", false) ||
        (Says(alternative_, "unevaluatedProperties", false) && !has_free);
    const bool names_some = With(alternative_, "properties") != nullptr;
    if (is_closed || (names_some && !has_free)) return Never();
    Schemas schemas;
    for (const Json* schema : alternative_) {
      const Json* others = Member(*schema, "additionalProperties");
      if (others != nullptr) schemas.push_back(others);
    }
    ASSIGN_OR_RETURN(ExpressionPtr key, FreeKey());
    return Sequence({std::move(key), json_.Colon(), builder_.ValueOf(schemas)});
  }

  absl::StatusOr<ExpressionPtr> FreeKey() {
    Schemas schemas;
    for (const Json* schema : alternative_) {
      const Json* names = Member(*schema, "propertyNames");
      if (names != nullptr) schemas.push_back(names);
    }
    if (schemas.empty()) return json_.StringExcept(names_);
    // Named ones fit as well, and may come once only.
    if (!names_.empty()) return Never();
    ASSIGN_OR_RETURN(const auto ways, AlternativesOf(document_, schemas));
    std::vector<ExpressionPtr> keys;
    for (const Schemas& way : ways) {
      if ((DeclaredTypes(way) & types::kString) == 0) continue;
      if (const auto values = ValuesOf(document_, way)) {
        for (const Json& value : *values) {
          if (value.is_string()) keys.push_back(json_.Literal(value));
        }
        continue;
      }
      ASSIGN_OR_RETURN(keys.emplace_back(), builder_.Strings(way));
    }
    return Choice(std::move(keys));
  }

  // Returns the grammar of a member that matches one pattern and no named one.
  absl::StatusOr<ExpressionPtr> PatternExtra() {
    std::optional<std::string> pattern;
    Schemas schemas;
    for (const Json* schema : alternative_) {
      const Json* patterns = Member(*schema, "patternProperties");
      if (patterns == nullptr) {
        const Json* others = Member(*schema, "additionalProperties");
        if (others != nullptr) schemas.push_back(others);
        continue;
      }
      for (const auto& [text, property] : patterns->items()) {
        if (pattern.value_or(text) != text) {
          return document_.Error(*schema, "patternProperties",
                                 "is supported with one pattern only");
        }
        pattern = text;
        schemas.push_back(&property);
      }
    }
    if (!pattern || Forbids(schemas)) return Never();
    const Regex& regex = document_.RegexOf(*pattern);
    for (const std::string& name : names_) {
      if (Finds(regex, name)) return Never();
    }
    return Sequence({json_.StringOf(regex.whole), json_.Colon(),
                     builder_.ValueOf(schemas)});
  }

  // Names that are free may be equal, and then count once.
  absl::Status CheckCounts() const {
    const int64_t required = std::ssize(required_);
    const bool counts_extra = !IsNever(*extra_) && least_ > required + 1;
    if (counts_extra) {
      return document_.Error(
          *With(alternative_, "minProperties"), "minProperties",
          "above 1 is not supported where names are free: they may be equal");
    }
    if (Counts() && members_.size() > kMaxCountedNames) {
      const char* keyword = most_ == kAny ? "minProperties" : "maxProperties";
      return document_.Error(*With(alternative_, keyword), keyword,
                             absl::StrCat("is supported with at most ",
                                          kMaxCountedNames, " properties"));
    }
    return absl::OkStatus();
  }

  bool Counts() const {
    const bool may_be_few = least_ > std::ssize(required_);
    const bool may_be_many =
        most_ != kAny && (!IsNever(*extra_) || most_ < std::ssize(members_));
    return may_be_few || may_be_many;
  }

  // Members from `at` on, after `count` of them; a count that matters no more
  // is the largest one that does.
  ExpressionPtr After(size_t at, int64_t count) {
    int64_t matters = 1;
    if (Counts()) matters = std::max({most_, least_, int64_t{1}});
    count = std::min(count, matters);
    if (at == members_.size()) return Extras(count);
    const auto known = after_.find({at, count});
    if (known != after_.end()) return known->second;
    ExpressionPtr all = Members(at, count);
    // What is used twice is a rule, or texts would double with each member.
    const bool is_used_once =
        !Counts() && (first_required_ == 0 || at > first_required_ + 1);
    if (!is_used_once && !IsNever(*all)) {
      all = Rule(json_.rules().Add(std::move(all)));
    }
    after_[{at, count}] = all;
    return all;
  }

  ExpressionPtr Members(size_t at, int64_t count) {
    const OneMember& member = members_[at];
    if (count > 0 && !Counts()) {
      const ExpressionPtr text = Sequence({json_.Comma(), member.text});
      return Sequence(
          {member.is_required ? text : Optional(text), After(at + 1, count)});
    }
    std::vector<ExpressionPtr> ways;
    if (most_ == kAny || count < most_) {
      ways.push_back(Sequence({count == 0 ? Text("") : json_.Comma(),
                               member.text, After(at + 1, count + 1)}));
    }
    if (!member.is_required) ways.push_back(After(at + 1, count));
    return Choice(std::move(ways));
  }

  // Returns what follows the members: others, and a blank.
  ExpressionPtr Extras(int64_t count) const {
    const int64_t least = std::max<int64_t>(least_ - count, 0);
    const int64_t most = most_ == kAny ? kAny : most_ - count;
    const ExpressionPtr next = Sequence({json_.Comma(), extra_});
    if (count > 0) {
      return Sequence({Repeat(next, least, most), json_.Blank()});
    }
    std::vector<ExpressionPtr> ways;
    if (least == 0) ways.push_back(Text(""));
    if (most != 0) {
      ways.push_back(Sequence({extra_,
                               Repeat(next, std::max<int64_t>(least - 1, 0),
                                      most == kAny ? kAny : most - 1),
                               json_.Blank()}));
    }
    return Choice(std::move(ways));
  }

  SchemaBuilder& builder_;
  SchemaDocument& document_;
  JsonGrammar& json_;
  const Schemas& alternative_;
  std::vector<std::string> required_;
  std::vector<std::string> names_;  // that extra ones may not have
  std::vector<OneMember> members_;
  ExpressionPtr extra_;
  size_t first_required_ = 0;        // of the members; their number: none
  int64_t least_ = 0, most_ = kAny;  // members
  std::map<std::pair<size_t, int64_t>, ExpressionPtr> after_;
};

}  // namespace

absl::StatusOr<ExpressionPtr> ObjectsOf(SchemaBuilder& builder,
                                        const Schemas& alternative) {
  return ObjectBuilder(builder, alternative).Build();
}

absl::StatusOr<ExpressionPtr> ArraysOf(SchemaBuilder& builder,
                                       const Schemas& alternative) {
  JsonGrammar& json = builder.json();
  const size_t fixed = FixedItems(alternative);
  const int64_t least = LargestOf(alternative, "minItems", 0);
  int64_t most = SmallestOf(alternative, "maxItems", kAny);
  const auto end_at = [&](size_t size) {
    const auto items = static_cast<int64_t>(size);
    most = most == kAny ? items : std::min(most, items);
  };
  if (Says(alternative, "uniqueItems", true)) end_at(1);
  for (size_t i = 0; i <= fixed; ++i) {
    if (Forbids(ItemSchemas(alternative, i))) end_at(i);
  }
  // After items of their own there are more only if it is said, or needed.
  const bool has_enough = fixed > 0 && least <= static_cast<int64_t>(fixed);
  if (ItemSchemas(alternative, fixed).empty() &&
      (has_enough || Says(alternative, "unevaluatedItems", false))) {
    end_at(fixed);
  }
  if (most != kAny && most < least) return Never();
  const auto item = [&](size_t index) {
    return builder.ValueOf(ItemSchemas(alternative, index));
  };
  if (fixed == 0) return json.ArrayOf(item(0), least, most);
  return json.TupleOf(item, fixed, least, most);
}

}  // namespace espalier::grammar
