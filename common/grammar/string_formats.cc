#include "common/grammar/string_formats.h"

#include <limits>
#include <map>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/grammar/regex.h"

namespace espalier::grammar {
namespace {

constexpr char kDate[] =
    R"(([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)-)"
    R"(((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|)"
    R"((0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])))";
constexpr char kTime[] =
    R"(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?)"
    R"((Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))";
constexpr char kDuration[] =
    R"(P([0-9]{1,4}W|[0-9]{1,4}D(T[0-9]{1,4}H([0-9]{1,4}M([0-9]{1,4}S)?)?)?|)"
    R"([0-9]{1,4}Y([0-9]{1,4}M([0-9]{1,4}D)?)?|)"
    R"(T([0-9]{1,4}H([0-9]{1,4}M([0-9]{1,4}S)?)?|[0-9]{1,4}M([0-9]{1,4}S)?|)"
    R"([0-9]{1,4}S)))";
constexpr char kLabel[] = R"([a-zA-Z0-9]([a-zA-Z0-9-]{0,28}[a-zA-Z0-9])?)";
constexpr char kByte[] = R"((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9]))";
constexpr char kUuid[] =
    "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-"
    "[0-9a-fA-F]{12}";
constexpr char kUriRest[] =
    R"(([A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2}))";

// Format and regular expression.
std::map<std::string, std::string, std::less<>> Regexes() {
  const std::string hostname = absl::StrCat("(", kLabel, "\\.){0,4}", kLabel);
  const std::string email =
      absl::StrCat(R"([a-zA-Z0-9_]([a-zA-Z0-9_.+%-]{0,30}[a-zA-Z0-9_])?@()",
                   kLabel, R"(\.){1,4}[a-zA-Z]{2,12})");
  const std::string ipv4 = absl::StrCat("(", kByte, "\\.){3}", kByte);
  const std::string group = "[0-9a-fA-F]{1,4}";
  const std::string ipv6 = absl::StrCat("(", group, ":){7}", group);
  const std::string rest = absl::StrCat(kUriRest, "*");
  const std::string query =
      absl::StrCat("(\\?(", kUriRest, "|\\?)*)?(#(", kUriRest, "|\\?)*)?");
  const std::string uri =
      absl::StrCat("[a-zA-Z][a-zA-Z0-9+.-]{0,15}://", hostname,
                   "(:[0-9]{1,4})?(/", rest, ")?", query);
  return {{"date", kDate},
          {"time", kTime},
          {"date-time", absl::StrCat("(", kDate, ")T(", kTime, ")")},
          {"duration", kDuration},
          {"email", email},
          {"idn-email", email},
          {"hostname", hostname},
          {"idn-hostname", hostname},
          {"ipv4", ipv4},
          {"ipv6", ipv6},
          {"uuid", kUuid},
          {"uuid1", kUuid},
          {"uuid3", kUuid},
          {"uuid4", kUuid},
          {"uuid5", kUuid},
          {"uri", uri},
          {"iri", uri},
          {"uri-reference", absl::StrCat("(", uri, "|/", rest, query, ")")},
          {"iri-reference", absl::StrCat("(", uri, "|/", rest, query, ")")},
          {"json-pointer", R"((/([a-zA-Z0-9_ .:-]|~[01])*)*)"}};
}

const std::map<std::string, ExpressionPtr, std::less<>>& Formats() {
  static const auto formats = [] {
    std::map<std::string, ExpressionPtr, std::less<>> made;
    for (const auto& [name, text] : Regexes()) {
      const auto regex = ParseRegex(text, RegexClasses::kCommon);
      ESPALIER_CHECK(regex.ok());
      made[name] = regex->whole;
    }
    return made;
  }();
  return formats;
}

template <typename Int>
IntegerFormat BoundsOf() {
  return {static_cast<int64_t>(std::numeric_limits<Int>::min()),
          static_cast<uint64_t>(std::numeric_limits<Int>::max())};
}

}  // namespace

bool IsKnownFormat(absl::string_view format) {
  static const absl::flat_hash_set<absl::string_view> silent = {
      "float",     "double", "decimal",        "number",   "integer",
      "string",    "text",   "password",       "binary",   "path",
      "file-path", "html",   "directory-path", "markdown", "multi-line"};
  return silent.contains(format) || FormatOf(format) != nullptr ||
         IntegerFormatOf(format);
}

ExpressionPtr FormatOf(absl::string_view format) {
  const auto found = Formats().find(format);
  return found == Formats().end() ? nullptr : found->second;
}

std::optional<IntegerFormat> IntegerFormatOf(absl::string_view format) {
  if (format == "int8") return BoundsOf<int8_t>();
  if (format == "int16") return BoundsOf<int16_t>();
  if (format == "int32") return BoundsOf<int32_t>();
  if (format == "int64" || format == "int") return BoundsOf<int64_t>();
  if (format == "uint8") return BoundsOf<uint8_t>();
  if (format == "uint16") return BoundsOf<uint16_t>();
  if (format == "uint32") return BoundsOf<uint32_t>();
  if (format == "uint64" || format == "uint") return BoundsOf<uint64_t>();
  return std::nullopt;
}

}  // namespace espalier::grammar
