#include "drafter/engine/option_reader.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace espalier::drafter {

int64_t OptionReader::Integer(absl::string_view name,
                              const Range<int64_t>& range) {
  const std::string* text = Find(name);
  if (text == nullptr) return range.fallback;
  int64_t value = 0;
  if (!absl::SimpleAtoi(*text, &value) || value < range.min ||
      value > range.max) {
    Fail(name, absl::StrCat("\"", *text, "\" is not a whole number from ",
                            range.min, " to ", range.max));
    return range.fallback;
  }
  return value;
}

double OptionReader::Number(absl::string_view name,
                            const Range<double>& range) {
  const std::string* text = Find(name);
  if (text == nullptr) return range.fallback;
  double value = 0;
  // Written so that NaN fails too.
  if (!absl::SimpleAtod(*text, &value) ||
      !(value >= range.min && value <= range.max)) {
    Fail(name, absl::StrCat("\"", *text, "\" is not a number from ", range.min,
                            " to ", range.max));
    return range.fallback;
  }
  return value;
}

bool OptionReader::Flag(absl::string_view name, bool fallback) {
  const std::string* text = Find(name);
  if (text == nullptr) return fallback;
  if (*text != "true" && *text != "false") {
    Fail(name, absl::StrCat("\"", *text, "\" is not one of false, true"));
  }
  return *text == "true";
}

std::string OptionReader::Text(absl::string_view name,
                               absl::string_view fallback) {
  const std::string* text = Find(name);
  return text == nullptr ? std::string(fallback) : *text;
}

std::string OptionReader::RequiredText(absl::string_view name) {
  const std::string* text = Find(name);
  if (text == nullptr || text->empty()) {
    Fail(name, "is required");
    return "";
  }
  return *text;
}

absl::Status OptionReader::Finish() const {
  for (const auto& [name, value] : options_) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("drafter ", drafter_, ": unknown option \"", name,
                       "\"; known: ", absl::StrJoin(known_, ", ")));
    }
  }
  return first_error_;
}

const std::string* OptionReader::Find(absl::string_view name) {
  known_.emplace_back(name);
  const auto found = options_.find(known_.back());
  return found == options_.end() ? nullptr : &found->second;
}

void OptionReader::Fail(absl::string_view name, absl::string_view problem) {
  first_error_.Update(absl::InvalidArgumentError(
      absl::StrCat("drafter ", drafter_, ": option ", name, ": ", problem)));
}

}  // namespace espalier::drafter
