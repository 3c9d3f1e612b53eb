#include "common/model/files/gguf_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/gguf_writer.h"

namespace espalier {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using testing::Array;
using testing::Entry;
using testing::GgufBytes;
using testing::kArray;
using testing::kBool;
using testing::kFloat32;
using testing::kFloat64;
using testing::kInt16;
using testing::kInt32;
using testing::kInt64;
using testing::kInt8;
using testing::kString;
using testing::kUint16;
using testing::kUint32;
using testing::kUint64;
using testing::kUint8;
using testing::Pair;
using testing::Raw;
using testing::Str;

class GgufFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/gguf_file_test_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(path_);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  absl::StatusOr<GgufFile> Open(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    return GgufFile::Open(path_);
  }

  void ExpectInvalid(const std::string& bytes, const std::string& why) const {
    const absl::Status status = Open(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(path_), HasSubstr(why)));
  }
  void ExpectInvalidPair(const std::string& pair,
                         const std::string& why) const {
    ExpectInvalid(GgufBytes{.pairs = {pair}}.Bytes(), why);
  }
  void ExpectInvalidEntry(const std::string& entry,
                          const std::string& why) const {
    ExpectInvalid(GgufBytes{.entries = {entry}, .data_bytes = 64}.Bytes(), why);
  }

  std::string path_;
};

// Returns one value of each type, arrays, and tensors of plain values and of
// blocks.
GgufBytes Sample() {
  return {.pairs = {Pair("u8", kUint8, Raw<uint8_t>(200)),
                    Pair("i8", kInt8, Raw<int8_t>(-3)),
                    Pair("u16", kUint16, Raw<uint16_t>(60000)),
                    Pair("i16", kInt16, Raw<int16_t>(-300)),
                    Pair("u32", kUint32, Raw<uint32_t>(4000000000u)),
                    Pair("i32", kInt32, Raw<int32_t>(-70000)),
                    Pair("f32", kFloat32, Raw(0.5f)),
                    Pair("bool", kBool, Raw(true)),
                    Pair("string", kString, Str("text")),
                    Pair("u64", kUint64, Raw<uint64_t>(5)),
                    Pair("big", kUint64, Raw<uint64_t>(~0ull)),
                    Pair("i64", kInt64, Raw<int64_t>(-5)),
                    Pair("f64", kFloat64, Raw(0.25)),
                    Pair("strings", kArray,
                         Array(kString, 3, Str("a") + Str("") + Str("bc"))),
                    Pair("ints", kArray,
                         Array(kInt32, 2, Raw<int32_t>(7) + Raw<int32_t>(-8))),
                    Pair("floats", kArray,
                         Array(kFloat32, 2, Raw(1.5f) + Raw(-2.0f))),
                    Pair("bools", kArray, Array(kBool, 2, Raw(true) + '\0')),
                    Pair("none", kArray, Array(kString, 0, ""))},
          .entries = {Entry("a", {3, 2}, 0, 0), Entry("b", {256}, 12, 32),
                      Entry("c", {32, 2}, 8, 192)},
          .data_bytes = 192 + 68};
}

TEST_F(GgufFileTest, ReadsEveryTypeOfValue) {
  const auto file = Open(Sample().Bytes());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->alignment(), 32u);
  EXPECT_EQ(file->metadata().size(), 18u);
  EXPECT_EQ(*file->Get<int64_t>("u8"), 200);
  EXPECT_EQ(*file->Get<int64_t>("i8"), -3);
  EXPECT_EQ(*file->Get<int64_t>("u16"), 60000);
  EXPECT_EQ(*file->Get<int64_t>("i16"), -300);
  EXPECT_EQ(*file->Get<int64_t>("u32"), 4000000000);
  EXPECT_EQ(*file->Get<int64_t>("i32"), -70000);
  EXPECT_EQ(*file->Get<double>("f32"), 0.5);
  EXPECT_TRUE(*file->Get<bool>("bool"));
  EXPECT_EQ(*file->Get<std::string_view>("string"), "text");
  EXPECT_EQ(*file->Get<int64_t>("u64"), 5);
  EXPECT_EQ(*file->Get<uint64_t>("big"), ~0ull);
  EXPECT_EQ(*file->Get<int64_t>("i64"), -5);
  EXPECT_EQ(*file->Get<double>("f64"), 0.25);
  EXPECT_THAT(*file->Get<std::vector<std::string_view>>("strings"),
              ElementsAre("a", "", "bc"));
  EXPECT_TRUE(file->Get<std::vector<std::string_view>>("none")->empty());
  const auto ints = *file->Get<GgufNumbers<int32_t>>("ints");
  ASSERT_EQ(ints.size(), 2u);
  EXPECT_EQ(ints[1], -8);
  EXPECT_EQ((*file->Get<GgufNumbers<float>>("floats"))[0], 1.5f);
  EXPECT_FALSE((*file->Get<GgufNumbers<bool>>("bools"))[1]);
}

TEST_F(GgufFileTest, ReadsTheTensorDirectory) {
  GgufBytes writer = Sample();
  writer.version = 2;
  const auto file = Open(writer.Bytes());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 3u);
  const GgufTensor& a = file->tensors().at("a");
  EXPECT_EQ(a.type, GgufTensorType::kF32);
  EXPECT_THAT(a.dims, ElementsAre(3, 2));
  EXPECT_EQ(a.data.size(), 24u);
  EXPECT_EQ(a.data[0], std::byte{1});  // data, not padding
  const GgufTensor& b = file->tensors().at("b");
  EXPECT_EQ(b.offset, 32u);
  EXPECT_EQ(b.data.data(), a.data.data() + 32);
  EXPECT_EQ(b.data.size(), 144u);
  EXPECT_EQ(file->tensors().at("c").data.size(), 68u);
}

TEST_F(GgufFileTest, KnowsTheBlocksOfEveryTensorType) {
  struct Case {
    uint32_t type;
    const char* name;
    uint64_t values, bytes;
  };
  // The sizes are those that gguf-py's GGML_QUANT_SIZES says.
  for (const Case& c : std::vector<Case>{{0, "F32", 1, 4},
                                         {1, "F16", 1, 2},
                                         {2, "Q4_0", 32, 18},
                                         {3, "Q4_1", 32, 20},
                                         {6, "Q5_0", 32, 22},
                                         {7, "Q5_1", 32, 24},
                                         {8, "Q8_0", 32, 34},
                                         {12, "Q4_K", 256, 144},
                                         {13, "Q5_K", 256, 176},
                                         {14, "Q6_K", 256, 210},
                                         {30, "BF16", 1, 2}}) {
    GgufBytes writer{.entries = {Entry("w", {c.values, 3}, c.type, 0)},
                     .data_bytes = 3 * c.bytes};
    const auto file = Open(writer.Bytes());
    ASSERT_TRUE(file.ok()) << file.status();
    const GgufTensor& tensor = file->tensors().at("w");
    EXPECT_STREQ(GgufTensorTypeName(tensor.type), c.name);
    EXPECT_EQ(tensor.data.size(), 3 * c.bytes);
    EXPECT_EQ(GgufBlockValues(tensor.type), static_cast<int64_t>(c.values));
    EXPECT_EQ(GgufBlockBytes(tensor.type), static_cast<int64_t>(c.bytes));
    --writer.data_bytes;
    ExpectInvalid(writer.Bytes(), "do not fit");
  }
}

TEST_F(GgufFileTest, ViewsOutliveAMove) {
  auto opened = Open(Sample().Bytes());
  ASSERT_TRUE(opened.ok());
  const GgufFile file = *std::move(opened);
  EXPECT_EQ(*file.Get<std::string_view>("string"), "text");
  EXPECT_EQ(file.tensors().at("c").data.back(), std::byte{1});
}

TEST_F(GgufFileTest, MissingAndOtherValuesAreNamed) {
  EXPECT_EQ(GgufFile::Open(path_).status().code(), absl::StatusCode::kNotFound);
  const auto file = Open(Sample().Bytes());
  ASSERT_TRUE(file.ok());
  const absl::Status missing = file->Get<bool>("absent").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("absent"));
  const absl::Status other = file->Get<bool>("u8").status();
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(other.message(), HasSubstr("u8"));
}

TEST_F(GgufFileTest, BrokenHeadersAreInvalid) {
  ExpectInvalid("", "magic");
  ExpectInvalid(GgufBytes{.magic = "GGML"}.Bytes(), "magic is not GGUF");
  ExpectInvalid("GGUF", "version");
  ExpectInvalid(GgufBytes{.version = 1}.Bytes(), "version is 1");
  ExpectInvalid(GgufBytes{.version = 4}.Bytes(), "version is 4");
  ExpectInvalid(GgufBytes{.version = 0x03000000}.Bytes(), "little-endian");
  const std::string start = "GGUF" + Raw<uint32_t>(3);
  ExpectInvalid(start + "1234", "tensor count");
  ExpectInvalid(start + Raw<uint64_t>(0) + "1234", "metadata count");
  ExpectInvalid(start + Raw<uint64_t>(0) + Raw<uint64_t>(~0ull),
                "metadata count is 18446744073709551615");
  ExpectInvalid(start + Raw<uint64_t>(1ull << 60) + Raw<uint64_t>(0),
                "tensor count is 1152921504606846976");
  EXPECT_TRUE(Open(GgufBytes{}.Bytes()).ok());
}

TEST_F(GgufFileTest, BrokenMetadataIsInvalidAndNamed) {
  const std::string pad(16, '\0');
  ExpectInvalidPair(Raw<uint64_t>(1 << 20) + pad, "metadata key of 1048576");
  ExpectInvalidPair(Raw<uint64_t>(~0ull) + pad, "metadata key of");
  ExpectInvalidPair(Pair("", kUint8, "1") + pad, "not 1 to 65535");
  ExpectInvalidPair(Pair(std::string(65536, 'k'), kUint8, "1"), "65536 bytes");
  ExpectInvalidPair(Pair("k", 13, pad), "key k: value type 13");
  ExpectInvalidPair(Pair("k", kFloat64, "1234"), "key k: value of 8 bytes");
  ExpectInvalidPair(Pair("k", kBool, "\2"), "key k: a bool is 2");
  ExpectInvalidPair(Pair("k", kString, Raw<uint64_t>(9) + "12345678"),
                    "key k: value of 9 bytes");
  ExpectInvalidPair(Pair("\xFF\n", 13, pad), "key \\xff\\x0a");
  ExpectInvalid(
      GgufBytes{.pairs = {Pair("k", kUint8, "1"), Pair("k", kBool, "\1")}}
          .Bytes(),
      "key k: is there twice");
}

TEST_F(GgufFileTest, BrokenArraysAreInvalidAndNamed) {
  ExpectInvalidPair(Pair("k", kArray, Array(kArray, 0, "")), "array type 9");
  ExpectInvalidPair(Pair("k", kArray, Array(99, 0, "")), "array type 99");
  ExpectInvalidPair(Pair("k", kArray, Array(kBool, 2, "\1\2")), "a bool is 2");
  ExpectInvalidPair(Pair("k", kArray, Array(kInt32, 2, "1234567")),
                    "array length is 2");
  ExpectInvalidPair(Pair("k", kArray, Array(kString, 1, Raw<uint64_t>(1))),
                    "array element of 1 bytes");
  // Counts whose sizes in bytes overflow, or that nothing could allocate.
  for (uint64_t count : {1ull << 62, 1ull << 61, ~0ull}) {
    for (uint32_t type : {kUint32, kString, kFloat64, kInt16}) {
      ExpectInvalidPair(Pair("k", kArray, Array(type, count, "12345678")),
                        absl::StrCat("key k: array length is ", count));
    }
  }
}

TEST_F(GgufFileTest, AlignmentIsAPowerOfTwoThatOffsetsKeep) {
  auto with = [](uint32_t alignment, uint64_t offset) {
    return GgufBytes{
        .pairs = {Pair("general.alignment", kUint32, Raw(alignment))},
        .entries = {Entry("a", {1}, 0, 0), Entry("b", {1}, 0, offset)},
        .data_bytes = offset + 4,
        .alignment = alignment == 0 ? 1 : alignment};
  };
  for (uint32_t alignment : {8, 32, 64, 4096}) {
    const auto file = Open(with(alignment, alignment).Bytes());
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->alignment(), alignment);
    EXPECT_EQ(file->tensors().at("b").data[3], std::byte{1});
    ExpectInvalid(with(alignment, alignment + 4).Bytes(), "not a multiple");
  }
  for (uint32_t alignment : {0, 1, 4, 24}) {
    ExpectInvalid(with(alignment, 96).Bytes(), "general.alignment is");
  }
  ExpectInvalidPair(Pair("general.alignment", kUint64, Raw<uint64_t>(32)),
                    "not a uint32");
  // Far past the end of the file.
  ExpectInvalid(
      GgufBytes{.pairs = {Pair("general.alignment", kUint32, Raw(1u << 31))},
                .entries = {Entry("a", {1}, 0, 0)}}
          .Bytes(),
      "do not fit the file's 0 data bytes");
}

TEST_F(GgufFileTest, BrokenTensorEntriesAreInvalidAndNamed) {
  ExpectInvalidEntry(Entry("", {1}, 0, 0), "not 1 to 64");
  ExpectInvalidEntry(Entry(std::string(65, 'n'), {1}, 0, 0), "65 bytes");
  ExpectInvalidEntry(Entry("w", {1, 1, 1, 1, 1}, 0, 0), "count is 5");
  ExpectInvalidEntry(Entry("w", {~0ull}, 0, 0), "tensor w: dimension 1844");
  ExpectInvalidEntry(Entry("w", {1ull << 62}, 0, 0), "have more than");
  ExpectInvalidEntry(Entry("w", {1ull << 32, 1ull << 32}, 0, 0), "more than");
  ExpectInvalidEntry(Entry("w", {1}, 4, 0), "tensor w: tensor type 4");
  ExpectInvalidEntry(Entry("w", {33}, 2, 0), "not blocks of 32 (Q4_0)");
  ExpectInvalidEntry(Entry("w", {128, 2}, 14, 0), "not blocks of 256 (Q6_K)");
  ExpectInvalidEntry(Entry("w", {1}, 0, 1), "offset 1 is not a multiple");
  ExpectInvalidEntry(Entry("w", {17}, 0, 0), "size 68 do not fit");
  ExpectInvalidEntry(Entry("w", {1}, 0, 96), "offset 96");
  ExpectInvalidEntry(Entry("w", {8}, 0, ~0ull - 31), "do not fit");
}

TEST_F(GgufFileTest, RepeatedAndOverlappingTensorsAreInvalid) {
  auto two = [](const std::string& a, const std::string& b) {
    return GgufBytes{.entries = {a, b}, .data_bytes = 128}.Bytes();
  };
  const std::string a = Entry("a", {9}, 0, 32);
  ExpectInvalid(two(a, Entry("a", {1}, 0, 96)), "tensor a: is there twice");
  ExpectInvalid(two(a, Entry("b", {1}, 0, 64)), "tensor b: offset 64 overlaps");
  ExpectInvalid(two(a, Entry("b", {1}, 0, 32)), "overlaps");
  EXPECT_TRUE(Open(two(a, Entry("b", {1}, 0, 0))).ok());
  EXPECT_TRUE(Open(two(a, Entry("b", {0}, 0, 32))).ok());
  EXPECT_TRUE(Open(two(a, Entry("b", {}, 0, 96))).ok());
}

// Reads what the file offers, to its last byte.
size_t ReadAll(const GgufFile& file) {
  size_t sum = 0;
  for (const auto& [key, value] : file.metadata()) {
    sum += key.size() + static_cast<unsigned char>(key.back());
    if (auto* text = std::get_if<std::string_view>(&value)) {
      for (unsigned char c : *text) sum += c;
    }
    if (auto* texts = std::get_if<std::vector<std::string_view>>(&value)) {
      for (std::string_view text : *texts) {
        for (unsigned char c : text) sum += c;
      }
    }
    if (auto* ints = std::get_if<GgufNumbers<int32_t>>(&value)) {
      for (size_t i = 0; i < ints->size(); ++i) sum += (*ints)[i] != 0;
    }
  }
  for (const auto& [name, tensor] : file.tensors()) {
    sum += static_cast<unsigned char>(name.back());
    for (std::byte byte : tensor.data) sum += std::to_integer<int>(byte);
  }
  return sum;
}

TEST_F(GgufFileTest, EveryTruncationIsInvalid) {
  const std::string good = Sample().Bytes();
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(Open(good.substr(0, size)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << size;
  }
}

// Any file opens or is refused; what opens can be read to its last byte.
TEST_F(GgufFileTest, MutatedFilesNeverCrash) {
  const std::string good = Sample().Bytes();
  const std::string counts[] = {Raw(~0ull), Raw(1ull << 61), Raw<uint64_t>(0),
                                Raw(1ull << 32)};
  std::mt19937 random(7);
  int refused = 0, opened = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good;
    for (int change = 0; change < 1 + i % 3; ++change) {
      const size_t at = random() % (bytes.size() - 8);
      switch (random() % 5) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 8);
          break;
        case 2:
          bytes.insert(at, 1, static_cast<char>(random() % 16));
          break;
        case 3:
          bytes.replace(at, 8, counts[random() % 4]);
          break;
        default:
          bytes[at] ^= static_cast<char>(1 << random() % 8);
      }
    }
    const auto file = Open(bytes);
    if (file.ok()) {
      ++opened;
      EXPECT_GT(ReadAll(*file), 0u);
    } else {
      ++refused;
      EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(opened, 100);
}

// This runs only if the default model is cached as GGUF too.
TEST(DefaultModelTest, OpensIfItIsCached) {
  const char* home = std::getenv("HOME");
  const auto folder = std::filesystem::path(home == nullptr ? "" : home) /
                      ".cache/espalier/models/smollm2-135m-instruct";
  std::string path;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".gguf") path = entry.path();
  }
  if (path.empty()) GTEST_SKIP() << "no .gguf file in " << folder;
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*file->Get<std::string_view>("general.architecture"), "llama");
  EXPECT_EQ(*file->Get<int64_t>("llama.block_count"), 30);
  EXPECT_EQ(
      file->Get<std::vector<std::string_view>>("tokenizer.ggml.tokens")->size(),
      49152u);
  const auto embedding = file->tensors().find("token_embd.weight");
  ASSERT_NE(embedding, file->tensors().end());
  EXPECT_THAT(embedding->second.dims, ElementsAre(576, 49152));
}

}  // namespace
}  // namespace espalier
