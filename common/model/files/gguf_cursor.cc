#include "common/model/files/gguf_cursor.h"

#include <bit>

#include "common/base/printable.h"

namespace espalier {

static_assert(std::endian::native == std::endian::little);

std::string ShownGgufName(std::string_view name) {
  return Printable({name.data(), name.size()}, /*max_bytes=*/100);
}

absl::Status NamedGgufError(const char* kind, std::string_view name,
                            const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(
      kind, " ", ShownGgufName(name), ": ", std::string(status.message())));
}

}  // namespace espalier
