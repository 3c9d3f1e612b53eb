#ifndef ESPALIER_COMMON_BASE_PRINTABLE_H_
#define ESPALIER_COMMON_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace espalier {

// Returns the index of the first byte that is not part of well-formed UTF-8;
// npos: all of `text` is well-formed.
size_t FindInvalidUtf8(absl::string_view text);

// Returns whether `text` can be shown as it is: well-formed UTF-8 without
// control characters (C0, DEL, C1), which would move a terminal's cursor or
// forge a line of a log.
bool IsPrintable(absl::string_view text);

// Makes a text from outside safe to show: control characters and bytes that are
// not UTF-8 become \xNN; after `max_bytes` of it, "..." and its size follow.
std::string Printable(absl::string_view text, size_t max_bytes);

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_PRINTABLE_H_
