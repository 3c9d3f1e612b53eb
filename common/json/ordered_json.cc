#include "common/json/ordered_json.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/json/parse_json.h"

namespace espalier {
namespace {

// Builds a document from the parser's events. OrderedJson::parse would look for
// each key among those before it, one by one; that no key is there twice is
// known.
class Builder : public OrderedJson::json_sax_t {
 public:
  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(int64_t value) override { return Add(value); }
  bool number_unsigned(uint64_t value) override { return Add(value); }
  bool number_float(double value, const std::string& text) override {
    if (text.find_first_of(".eE") == std::string::npos) {
      problem_ = absl::StrCat("the integer ", Printable(text, kMaxShown),
                              " is beyond 64 bits");
      return false;
    }
    return Add(value);
  }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(OrderedJson::binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override {
    return Open(OrderedJson::object());
  }
  bool key(std::string& key) override {
    keys_.back() = std::move(key);
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(size_t /*size*/) override {
    return Open(OrderedJson::array());
  }
  bool end_array() override { return Close(); }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const OrderedJson::exception& /*error*/) override {
    problem_ = absl::StrCat("not valid JSON at byte ", position);
    return false;
  }

  const std::string& problem() const { return problem_; }
  OrderedJson Take() { return std::move(root_); }

 private:
  static constexpr size_t kMaxShown = 40;

  OrderedJson* Put(OrderedJson value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      auto& items = open_.back()->get_ref<OrderedJson::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    auto& members = open_.back()->get_ref<OrderedJson::object_t&>();
    // The vector that an ordered object is.
    members.push_back({std::move(keys_.back()), std::move(value)});
    return &members.back().second;
  }

  bool Add(OrderedJson value) {
    Put(std::move(value));
    return true;
  }

  bool Open(OrderedJson value) {
    open_.push_back(Put(std::move(value)));
    keys_.emplace_back();
    return true;
  }

  bool Close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  OrderedJson root_;
  std::vector<OrderedJson*> open_;  // the containers around what comes next
  std::vector<std::string> keys_;   // of what comes next in each
  std::string problem_;
};

}  // namespace

absl::StatusOr<OrderedJson> ParseOrderedJson(std::string_view text) {
  RETURN_IF_ERROR(ParseJson(text, /*source=*/"").status());
  Builder builder;
  if (!OrderedJson::sax_parse(text, &builder)) {
    return absl::InvalidArgumentError(builder.problem());
  }
  return builder.Take();
}

OrderedJson ReadOrderedJson(std::string_view text) {
  return OrderedJson::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
}

std::string ToText(const OrderedJson& json) {
  return json.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false,
                   OrderedJson::error_handler_t::replace);
}

}  // namespace espalier
