#include "common/model/files/json_file.h"

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/json/parse_json.h"
#include "common/model/files/mapped_file.h"

namespace espalier {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{64} << 20;

}  // namespace

absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  if (static_cast<int64_t>(file.bytes().size()) > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is larger than ", kMaxFileBytes, " bytes"));
  }
  return ParseJsonObject(
      std::string_view(reinterpret_cast<const char*>(file.bytes().data()),
                       file.bytes().size()),
      path);
}

}  // namespace espalier
