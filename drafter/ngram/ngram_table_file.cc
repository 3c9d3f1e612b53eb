#include "drafter/ngram/ngram_table_file.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "drafter/ngram/checked_bytes.h"

namespace espalier::drafter {
namespace {

constexpr FileFormat kTableFormat = {
    .name = "n-gram table", .magic = "ESPNGRAM", .version = 1};

struct LevelSize {
  uint64_t contexts = 0;
  uint64_t successors = 0;
};

// Reads the level sizes. They must account for exactly the bytes that follow
// them, so no column is allocated that the file does not hold.
absl::StatusOr<std::vector<LevelSize>> ReadLevelSizes(uint32_t order,
                                                      ByteReader& reader) {
  std::vector<LevelSize> sizes(order);
  if (reader.remaining() < order * 2 * sizeof(uint64_t)) {
    return kTableFormat.Error("truncated in its sizes");
  }
  for (LevelSize& size : sizes) {
    size.contexts = reader.Get<uint64_t>();
    size.successors = reader.Get<uint64_t>();
  }
  uint64_t needed = 0;
  for (uint32_t length = 0; length < order; ++length) {
    if (sizes[length].contexts > reader.remaining() ||
        sizes[length].successors > reader.remaining()) {
      return kTableFormat.Error("truncated, or its sizes are damaged");
    }
    needed += sizes[length].contexts * (4 * length + 24) +
              sizes[length].successors * 8;
  }
  if (needed != reader.remaining()) {
    return kTableFormat.Error(absl::StrCat(
        reader.remaining(), " bytes of content, expected ", needed));
  }
  return sizes;
}

NgramTable::Level ReadLevel(int64_t length, const LevelSize& size,
                            ByteReader& reader) {
  NgramTable::Level level;
  const int64_t contexts = static_cast<int64_t>(size.contexts);
  reader.GetColumn<uint32_t>(contexts * length, level.contexts);
  reader.GetColumn<uint64_t>(contexts, level.totals);
  reader.GetColumn<uint64_t>(contexts, level.distinct);
  reader.GetColumn<uint64_t>(contexts, level.ends);
  level.successors.resize(size.successors);
  for (SuccessorCount& entry : level.successors) {
    entry.token = reader.Get<int32_t>();
    entry.count = reader.Get<uint32_t>();
  }
  return level;
}

}  // namespace

std::string SerializeNgramTable(const NgramTable& table) {
  const NgramTable::Content& content = table.content();
  ByteWriter writer;
  writer.PutText(kTableFormat.magic);
  writer.Put(kTableFormat.version);
  writer.Put(static_cast<uint32_t>(table.order()));
  writer.Put(static_cast<uint64_t>(content.vocab_size));
  writer.Put(content.tokenizer_fingerprint);
  for (const NgramTable::Level& level : content.levels) {
    writer.Put(static_cast<uint64_t>(level.num_contexts()));
    writer.Put(static_cast<uint64_t>(level.successors.size()));
  }
  for (const NgramTable::Level& level : content.levels) {
    writer.PutColumn<uint32_t>(level.contexts);
    writer.PutColumn<uint64_t>(level.totals);
    writer.PutColumn<uint64_t>(level.distinct);
    writer.PutColumn<uint64_t>(level.ends);
    for (const SuccessorCount& entry : level.successors) {
      writer.Put(entry.token);
      writer.Put(entry.count);
    }
  }
  return writer.TakeChecked();
}

absl::StatusOr<NgramTable> ParseNgramTable(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const absl::string_view body,
                   CheckedContent(kTableFormat, bytes));
  ByteReader reader(body);
  if (reader.remaining() < 20)
    return kTableFormat.Error("truncated in the header");
  const uint32_t order = reader.Get<uint32_t>();
  if (order < 1 || order > NgramTable::kMaxOrder) {
    return kTableFormat.Error(absl::StrCat(
        "order ", order, " is not from 1 to ", NgramTable::kMaxOrder));
  }
  NgramTable::Content content;
  content.vocab_size = static_cast<int64_t>(reader.Get<uint64_t>());
  content.tokenizer_fingerprint = reader.Get<uint64_t>();
  ASSIGN_OR_RETURN(const std::vector<LevelSize> sizes,
                   ReadLevelSizes(order, reader));
  for (uint32_t length = 0; length < order; ++length) {
    content.levels.push_back(ReadLevel(length, sizes[length], reader));
  }
  return NgramTable::Create(std::move(content));
}

absl::Status WriteNgramTable(const NgramTable& table, const std::string& path) {
  return WriteWholeFile(path, SerializeNgramTable(table));
}

absl::StatusOr<NgramTable> ReadNgramTable(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path));
  absl::StatusOr<NgramTable> table = ParseNgramTable(bytes);
  if (!table.ok()) {
    return absl::Status(table.status().code(),
                        absl::StrCat(path, ": ", table.status().message()));
  }
  return table;
}

}  // namespace espalier::drafter
