#include "drafter/ngram_table_file.h"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace espalier::drafter {
namespace {

constexpr absl::string_view kMagic = "ESPNGRAM";
constexpr uint32_t kVersion = 1;
constexpr size_t kChecksumBytes = 8;

// Guards against damage, not against an adversary: NgramTable::Create does.
uint64_t Fnv1a(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

class Writer {
 public:
  template <typename T>
  void Put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(
          static_cast<char>(static_cast<uint64_t>(value) >> 8 * i));
    }
  }
  void PutText(absl::string_view text) {
    bytes_.append(text.data(), text.size());
  }
  template <typename T, typename U>
  void PutColumn(const std::vector<U>& column) {
    for (U value : column) Put(static_cast<T>(value));
  }
  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads past the end give zeros; Parse compares sizes before it reads columns.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T) && !bytes_.empty(); ++i) {
      value |= uint64_t{static_cast<unsigned char>(bytes_[0])} << 8 * i;
      bytes_.remove_prefix(1);
    }
    return static_cast<T>(value);
  }
  template <typename T, typename U>
  void GetColumn(int64_t size, std::vector<U>& column) {
    column.reserve(size);
    for (int64_t i = 0; i < size; ++i) {
      column.push_back(static_cast<U>(Get<T>()));
    }
  }
  uint64_t remaining() const { return bytes_.size(); }

 private:
  absl::string_view bytes_;
};

absl::Status FileError(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("n-gram table: ", what));
}

struct LevelSize {
  uint64_t contexts = 0;
  uint64_t successors = 0;
};

// Reads the level sizes. They must account for exactly the bytes that follow
// them, so no column is allocated that the file does not hold.
absl::StatusOr<std::vector<LevelSize>> ReadLevelSizes(uint32_t order,
                                                      Reader& reader) {
  std::vector<LevelSize> sizes(order);
  if (reader.remaining() < order * 2 * sizeof(uint64_t)) {
    return FileError("truncated in its sizes");
  }
  for (LevelSize& size : sizes) {
    size.contexts = reader.Get<uint64_t>();
    size.successors = reader.Get<uint64_t>();
  }
  uint64_t needed = 0;
  for (uint32_t length = 0; length < order; ++length) {
    if (sizes[length].contexts > reader.remaining() ||
        sizes[length].successors > reader.remaining()) {
      return FileError("truncated, or its sizes are damaged");
    }
    needed += sizes[length].contexts * (4 * length + 24) +
              sizes[length].successors * 8;
  }
  if (needed != reader.remaining()) {
    return FileError(absl::StrCat(reader.remaining(),
                                  " bytes of content, expected ", needed));
  }
  return sizes;
}

NgramTable::Level ReadLevel(int64_t length, const LevelSize& size,
                            Reader& reader) {
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
  Writer writer;
  writer.PutText(kMagic);
  writer.Put(kVersion);
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
  writer.Put(Fnv1a(writer.bytes()));
  return writer.Take();
}

absl::StatusOr<NgramTable> ParseNgramTable(absl::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return FileError("does not start with ESPNGRAM: another kind of file");
  }
  if (bytes.size() < kMagic.size() + 24 + kChecksumBytes) {
    return FileError("truncated in the header");
  }
  const absl::string_view body = bytes.substr(0, bytes.size() - kChecksumBytes);
  Reader reader(body.substr(kMagic.size()));
  const uint32_t version = reader.Get<uint32_t>();
  if (version != kVersion) {
    return FileError(
        absl::StrCat("format version ", version, ", expected ", kVersion));
  }
  if (Reader(bytes.substr(body.size())).Get<uint64_t>() != Fnv1a(body)) {
    return FileError("checksum does not fit: truncated or damaged");
  }
  const uint32_t order = reader.Get<uint32_t>();
  if (order < 1 || order > NgramTable::kMaxOrder) {
    return FileError(absl::StrCat("order ", order, " is not from 1 to ",
                                  NgramTable::kMaxOrder));
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
  const std::string part = path + ".part";
  {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    const std::string bytes = SerializeNgramTable(table);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) {
      std::remove(part.c_str());
      return absl::UnavailableError(absl::StrCat("cannot write ", part));
    }
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) {
    std::remove(part.c_str());
    return absl::UnavailableError(absl::StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

absl::StatusOr<NgramTable> ReadNgramTable(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  std::ostringstream bytes;
  bytes << file.rdbuf();  // unlike the buffer's iterators, does not throw
  if (!bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": n-gram table: empty or not readable"));
  }
  absl::StatusOr<NgramTable> table = ParseNgramTable(bytes.str());
  if (!table.ok()) {
    return absl::Status(table.status().code(),
                        absl::StrCat(path, ": ", table.status().message()));
  }
  return table;
}

}  // namespace espalier::drafter
