#ifndef ESPALIER_COMMON_MODEL_FILES_GGUF_METADATA_H_
#define ESPALIER_COMMON_MODEL_FILES_GGUF_METADATA_H_

#include <cstdint>
#include <map>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/files/gguf_cursor.h"

namespace espalier {

// A value of the metadata. Integers of every width are int64_t, but for those
// that only uint64_t holds; floats of both widths are double.
using GgufValue = std::variant<
    int64_t, uint64_t, double, bool, std::string_view, GgufNumbers<uint8_t>,
    GgufNumbers<int8_t>, GgufNumbers<uint16_t>, GgufNumbers<int16_t>,
    GgufNumbers<uint32_t>, GgufNumbers<int32_t>, GgufNumbers<uint64_t>,
    GgufNumbers<int64_t>, GgufNumbers<float>, GgufNumbers<double>,
    GgufNumbers<bool>, std::vector<std::string_view>>;

using GgufMetadata = std::map<std::string_view, GgufValue>;

// Reads `count` pairs of keys and values. Checks that keys do not repeat, and
// every length, count and type; arrays of arrays are refused.
absl::StatusOr<GgufMetadata> ReadGgufMetadata(GgufCursor& cursor,
                                              uint64_t count);

// Returns the number of bytes that the offset of a tensor is a multiple of: as
// the file says, or the format's default.
absl::StatusOr<uint32_t> GgufAlignment(const GgufMetadata& metadata);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_GGUF_METADATA_H_
