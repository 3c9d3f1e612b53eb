#ifndef ESPALIER_TESTS_TESTING_GGUF_WRITER_H_
#define ESPALIER_TESTS_TESTING_GGUF_WRITER_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace espalier::testing {

// The bytes of GGUF files, piece by piece, well-formed or not.

template <typename T>
std::string Raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

inline std::string Str(const std::string& text) {
  return Raw<uint64_t>(text.size()) + text;
}

// Types of values by their numbers in the file.
inline constexpr uint32_t kUint8 = 0, kInt8 = 1, kUint16 = 2, kInt16 = 3,
                          kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7,
                          kString = 8, kArray = 9, kUint64 = 10, kInt64 = 11,
                          kFloat64 = 12;

inline std::string Pair(const std::string& key, uint32_t type,
                        const std::string& value) {
  return Str(key) + Raw(type) + value;
}

inline std::string Array(uint32_t type, uint64_t count,
                         const std::string& items) {
  return Raw(type) + Raw(count) + items;
}

inline std::string Entry(const std::string& name,
                         const std::vector<uint64_t>& dims, uint32_t type,
                         uint64_t offset) {
  std::string bytes = Str(name) + Raw<uint32_t>(dims.size());
  for (uint64_t dim : dims) bytes += Raw(dim);
  return bytes + Raw(type) + Raw(offset);
}

// A file of these pairs and entries, then `data`, or so many ones.
struct GgufBytes {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::vector<std::string> pairs;
  std::vector<std::string> entries;
  uint64_t data_bytes = 0;
  uint64_t alignment = 32;
  std::string data;

  std::string Bytes() const {
    std::string bytes = magic + Raw(version) + Raw<uint64_t>(entries.size()) +
                        Raw<uint64_t>(pairs.size());
    for (const std::string& pair : pairs) bytes += pair;
    for (const std::string& entry : entries) bytes += entry;
    if (data_bytes == 0 && data.empty()) return bytes;
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
    return bytes + (data.empty() ? std::string(data_bytes, '\1') : data);
  }

  // A tensor of these bytes after those that are there.
  void Add(const std::string& name, const std::vector<uint64_t>& dims,
           uint32_t type, const std::string& bytes) {
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    entries.push_back(Entry(name, dims, type, data.size()));
    data += bytes;
  }
};

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_TESTING_GGUF_WRITER_H_
