// Typed reads of an untrusted body in JSON. Errors are FieldErrors that name
// the field as the client wrote it.
#ifndef ESPALIER_COORDINATOR_HTTP_JSON_READ_H_
#define ESPALIER_COORDINATOR_HTTP_JSON_READ_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

namespace espalier::coordinator {

// Keys keep their order: schemas and templates depend on it.
using Json = nlohmann::ordered_json;

// The body of a request: an object of at most kMaxValues values. Errors say
// where it is malformed.
inline constexpr int64_t kMaxValues = int64_t{1} << 20;
absl::StatusOr<Json> ReadBody(const std::string& body);

absl::StatusOr<double> ReadNumber(absl::string_view field, const Json& json);
// A number without a fraction, least .. most.
absl::StatusOr<int64_t> ReadInteger(absl::string_view field, const Json& json,
                                    int64_t least, int64_t most);
absl::StatusOr<bool> ReadBool(absl::string_view field, const Json& json);
absl::StatusOr<std::string> ReadText(absl::string_view field, const Json& json);
// A list of texts; a text alone is a list of one.
absl::StatusOr<std::vector<std::string>> ReadTexts(absl::string_view field,
                                                   const Json& json);
absl::StatusOr<std::vector<uint32_t>> ReadTokens(absl::string_view field,
                                                 const Json& json);

// FieldError unless it is a list of 1 .. kMaxMessages entries: each costs time
// and memory beyond its bytes.
inline constexpr size_t kMaxMessages = 4096;
absl::Status CheckMessageList(absl::string_view field, const Json& json);

// FieldError unless it is an object that has no other members than `known`.
absl::Status CheckMembers(absl::string_view field, const Json& json,
                          absl::Span<const absl::string_view> known);

// The member of an object; null: it is absent or null.
const Json* Find(const Json& object, absl::string_view name);
// "field[3]"
std::string Item(absl::string_view field, size_t index);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_JSON_READ_H_
