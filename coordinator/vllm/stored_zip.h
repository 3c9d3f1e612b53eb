#ifndef ESPALIER_COORDINATOR_VLLM_STORED_ZIP_H_
#define ESPALIER_COORDINATOR_VLLM_STORED_ZIP_H_

#include <string>

#include "absl/types/span.h"
#include "common/model/files/tokenizer_artifacts.h"

namespace espalier::coordinator {

// A zip archive of the files, not compressed (PKWARE APPNOTE 6.3.3, sections
// 4.3 and 4.4). The same files give the same bytes. REQUIRES: fewer than 65536
// files, with names and contents of less than 4 GiB in all.
std::string StoredZip(absl::Span<const TextFile> files);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_VLLM_STORED_ZIP_H_
