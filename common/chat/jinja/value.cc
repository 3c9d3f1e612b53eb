#include "common/chat/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/object.h"

namespace espalier::jinja {
namespace {

// A dict of fewer items is searched from its beginning.
constexpr size_t kItemsWithoutHash = 8;

struct BareCharacters {
  CharactersView text;
  template <typename H>
  friend H AbslHashValue(H state, const BareCharacters& bare) {
    for (char32_t c : bare.text) {
      state = H::combine(std::move(state), uint32_t{Bare(c)});
    }
    return state;
  }
};

int Deeper(int depth) {
  if (depth >= kMaxValueDepth) throw Error("its values nest too deeply");
  return depth + 1;
}

bool SameSequences(Budget& budget, const Sequence& a, const Sequence& b) {
  const bool a_is_list = a.kind == Sequence::Kind::kList;
  const bool b_is_list = b.kind == Sequence::Kind::kList;
  return a_is_list == b_is_list && a.items.size() == b.items.size() &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                    [&](const Value& x, const Value& y) {
                      return Equal(budget, x, y);
                    });
}

bool SameDicts(Budget& budget, const Dict& a, const Dict& b) {
  if (a.items().size() != b.items().size()) return false;
  return std::all_of(a.items().begin(), a.items().end(), [&](const auto& item) {
    const Value* other = b.Find(budget, item.first);
    return other != nullptr && Equal(budget, item.second, *other);
  });
}

bool SameNumbers(const Value& a, const Value& b) {
  if (!a.IsFloat() && !b.IsFloat()) return a.integer() == b.integer();
  if (a.IsFloat() && b.IsFloat()) return a.real() == b.real();
  const double real = a.IsFloat() ? a.real() : b.real();
  const Int whole = a.IsFloat() ? b.integer() : a.integer();
  constexpr double kBound = 0x1p126;
  return std::abs(real) < kBound && std::trunc(real) == real &&
         static_cast<Int>(real) == whole;
}

bool SameObjects(Object& a, Object& b) {
  if (&a == &b) return true;
  const auto* range_a = dynamic_cast<const Range*>(&a);
  const auto* range_b = dynamic_cast<const Range*>(&b);
  return range_a != nullptr && range_b != nullptr && range_a->Equals(*range_b);
}

}  // namespace

Value Value::Undefined(std::string why) {
  return Value(std::make_shared<const std::string>(std::move(why)));
}

Value Value::Of(std::shared_ptr<Object> object) {
  return Value(Variant(std::move(object)));
}

bool Value::IsList() const {
  return IsSequence() && sequence().kind == Sequence::Kind::kList;
}

bool Value::IsTuple() const {
  return IsSequence() && sequence().kind != Sequence::Kind::kList;
}

int Value::depth() const {
  if (IsSequence()) return sequence().depth;
  if (IsDict()) return dict().depth();
  return IsObject() ? object()->depth() : 0;
}

const Value* Dict::Find(Budget& budget, const Value& key) const {
  const size_t at = IndexOf(budget, key);
  return at < items_.size() ? &items_[at].second : nullptr;
}

const Value* Dict::Find(std::string_view ascii_key) const {
  for (const auto& [key, value] : items_) {
    if (key.IsText() && Is(key.characters(), ascii_key)) return &value;
  }
  return nullptr;
}

size_t Dict::IndexOf(Budget& budget, const Value& key) const {
  const size_t hash = HashOf(budget, key);
  if (positions_.empty()) {
    for (size_t i = 0; i < items_.size(); ++i) {
      if (Equal(budget, items_[i].first, key)) return i;
    }
    return items_.size();
  }
  const auto [begin, end] = positions_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (Equal(budget, items_[at->second].first, key)) return at->second;
  }
  return items_.size();
}

void Dict::Set(Budget& budget, Value key, Value value) {
  depth_ = std::max({depth_, Deeper(key.depth()), Deeper(value.depth())});
  const size_t at = IndexOf(budget, key);
  if (at < items_.size()) {
    items_[at].second = std::move(value);
    return;
  }
  items_.emplace_back(std::move(key), std::move(value));
  if (items_.size() <= kItemsWithoutHash) return;
  for (size_t i = positions_.size(); i < items_.size(); ++i) {
    positions_.emplace(HashOf(budget, items_[i].first), i);
  }
}

Value MakeText(Budget& budget, Characters text, bool markup) {
  budget.SpendValue();
  budget.SpendCharacters(text.size());
  return Value(std::make_shared<const Text>(Text{std::move(text), markup}));
}

Value ConstantText(Characters text) {
  return Value(std::make_shared<const Text>(Text{std::move(text), false}));
}

Value MakeSequence(Budget& budget, std::vector<Value> items,
                   Sequence::Kind kind) {
  budget.SpendValues(1 + items.size() / 8);
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return Value(std::make_shared<const Sequence>(
      Sequence{std::move(items), kind, Deeper(depth)}));
}

Value MakeDict(Budget& budget, Dict dict) {
  budget.SpendValues(1 + dict.items().size() / 4);
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

bool IsTrue(const Value& value) {
  if (value.IsBool()) return value.boolean();
  if (value.IsInt()) return value.integer() != 0;
  if (value.IsFloat()) return value.real() != 0;
  if (value.IsText()) return !value.characters().empty();
  if (value.IsSequence()) return !value.items().empty();
  if (value.IsDict()) return !value.dict().items().empty();
  return value.IsObject() && value.object()->IsTrue();
}

bool Equal(Budget& budget, const Value& a, const Value& b) {
  budget.Spend(1);
  if (a.IsNumber() && b.IsNumber()) return SameNumbers(a, b);
  if (a.IsText() && b.IsText()) {
    if (a.characters().size() != b.characters().size()) return false;
    budget.SpendCharacters(a.characters().size());
    return Same(a.characters(), b.characters());
  }
  if (a.IsSequence() && b.IsSequence()) {
    return SameSequences(budget, a.sequence(), b.sequence());
  }
  if (a.IsDict() && b.IsDict()) return SameDicts(budget, a.dict(), b.dict());
  if (a.IsObject() && b.IsObject())
    return SameObjects(*a.object(), *b.object());
  return (a.IsNone() && b.IsNone()) || (a.IsUndefined() && b.IsUndefined());
}

size_t HashOf(Budget& budget, const Value& value) {
  budget.Spend(1);
  if (value.IsNumber()) return absl::HashOf(ToDouble(value));
  if (value.IsText()) {
    budget.SpendCharacters(value.characters().size());
    return absl::Hash<BareCharacters>()(BareCharacters{value.characters()});
  }
  if (value.IsTuple()) {
    size_t hash = value.items().size();
    for (const Value& item : value.items()) {
      hash = absl::HashOf(hash, HashOf(budget, item));
    }
    return hash;
  }
  if (value.IsSequence() || value.IsDict()) {
    throw Error(absl::StrCat("unhashable type: '", TypeName(value), "'"));
  }
  if (value.IsObject()) return absl::HashOf(value.object().get());
  return value.IsNone() ? 1 : 2;
}

double ToDouble(const Value& number) {
  return number.IsFloat() ? number.real()
                          : static_cast<double>(number.integer());
}

std::string TypeName(const Value& value) {
  if (value.IsNone()) return "NoneType";
  if (value.IsUndefined()) return "Undefined";
  if (value.IsBool()) return "bool";
  if (value.IsInt()) return "int";
  if (value.IsFloat()) return "float";
  if (value.IsText()) return value.text().markup ? "Markup" : "str";
  if (value.IsList()) return "list";
  if (value.IsTuple()) return "tuple";
  return value.IsDict() ? "dict" : value.object()->TypeName();
}

std::string ObjectTypeName(const Value& value) {
  if (value.IsNone()) return "None";
  if (value.IsUndefined()) return "jinja2.runtime.Undefined object";
  return absl::StrCat(TypeName(value), " object");
}

}  // namespace espalier::jinja
