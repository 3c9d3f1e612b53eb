#ifndef ESPALIER_COMMON_JSON_ORDERED_JSON_H_
#define ESPALIER_COMMON_JSON_ORDERED_JSON_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace espalier {

using OrderedJson = nlohmann::ordered_json;

// Parses untrusted JSON, with keys in the order of the text, as templates print
// them. INVALID_ARGUMENT: as of ParseJson, or an integer beyond 64 bits, which
// would be printed as another number.
absl::StatusOr<OrderedJson> ParseOrderedJson(std::string_view text);

// Parses a text of known origin, or one whose errors nobody asks for:
// is_discarded() where it is no JSON.
OrderedJson ReadOrderedJson(std::string_view text);

// One line of UTF-8, in which U+FFFD stands for bytes that are none.
std::string ToText(const OrderedJson& json);

}  // namespace espalier

#endif  // ESPALIER_COMMON_JSON_ORDERED_JSON_H_
