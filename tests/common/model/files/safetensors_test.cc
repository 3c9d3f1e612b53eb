#include "common/model/files/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/model/files/weight_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_model.h"

namespace espalier {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SafetensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/safetensors_test_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  std::string Path(const std::string& name = "model.safetensors") const {
    return folder_ + "/" + name;
  }

  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
  }

  // Returns a file of this header and so many data bytes.
  static std::string File(const std::string& header, size_t data_bytes) {
    const uint64_t size = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &size, 8);
    return bytes + header + std::string(data_bytes, '\1');
  }

  absl::Status Open(const std::string& bytes) const {
    Write("model.safetensors", bytes);
    return SafetensorsFile::Open(Path()).status();
  }

  void ExpectInvalid(const std::string& bytes, const std::string& why) const {
    const absl::Status status = Open(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(Path()), HasSubstr(why)));
  }

  std::string folder_;
};

std::string Entry(const std::string& name, const std::string& shape,
                  const std::string& offsets,
                  const std::string& dtype = "F32") {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype,
                      "\",\"shape\":", shape, ",\"data_offsets\":", offsets,
                      "}");
}

TEST_F(SafetensorsTest, ReadsWhatWasWritten) {
  testing::WriteSafetensors(
      Path(), {{"a", {.shape = {2, 3}, .values = {1, 2, 3, 4, 5, -6}}},
               {"b", {.shape = {}, .values = {0.5}}}});
  const auto weights = WeightFiles::Open(folder_);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto a = weights->Find("a", {2, 3});
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->dtype, DType::kBF16);
  ASSERT_EQ(a->data.size(), 12u);
  uint16_t last;
  std::memcpy(&last, a->data.data() + 10, 2);
  EXPECT_EQ(last, 0xC0C0);  // -6 in bf16
  EXPECT_TRUE(weights->Find("b", {}).ok());
}

TEST_F(SafetensorsTest, MissingFileAndTensorAreNotFoundByName) {
  const auto none = WeightFiles::Open(folder_);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(none.status().message(), HasSubstr("model.safetensors"));
  testing::WriteSafetensors(Path(), {{"a", {.shape = {1}, .values = {1}}}});
  const auto weights = WeightFiles::Open(folder_);
  ASSERT_TRUE(weights.ok());
  const auto missing = weights->Find("other");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr("other"));
  const auto shape = weights->Find("a", {2});
  EXPECT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SafetensorsTest, AFolderIsNotAFile) {
  std::filesystem::create_directories(Path());
  EXPECT_EQ(SafetensorsFile::Open(Path()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(SafetensorsTest, BrokenHeadersAreInvalid) {
  ExpectInvalid("", "header length");
  ExpectInvalid("1234567", "header length");
  ExpectInvalid(File("{}", 0).substr(0, 9), "does not fit");
  ExpectInvalid(std::string(8, '\xFF') + "{}", "does not fit");
  ExpectInvalid(File("{", 0), "not valid JSON");
  ExpectInvalid(File("[]", 0), "must be a JSON object");
  ExpectInvalid(File("{\"a\":" + std::string(100000, '['), 0), "deeper");
  ExpectInvalid(File("{\"a\":1}", 0), "tensor a");
  ExpectInvalid(File("{\"a\":{\"dtype\":\"F32\"}}", 0), "has no shape");
}

TEST_F(SafetensorsTest, WrongEntriesAreInvalidAndNamed) {
  auto one = [](const std::string& entry) { return "{" + entry + "}"; };
  ExpectInvalid(File(one(Entry("w", "[1]", "[0,4]", "F33")), 4), "F33");
  ExpectInvalid(File(one(Entry("w", "[2]", "[0,4]")), 4), "tensor w");
  ExpectInvalid(File(one(Entry("w", "[-1]", "[0,4]")), 4), "shape");
  ExpectInvalid(File(one(Entry("w", "[1.0]", "[0,4]")), 4), "shape");
  ExpectInvalid(File(one(Entry("w", "[1]", "[0]")), 4), "data_offsets");
  ExpectInvalid(File(one(Entry("w", "[1]", "[4,0]")), 4), "data_offsets");
  ExpectInvalid(File(one(Entry("w", "[2]", "[0,8]")), 4), "do not fit");
  ExpectInvalid(File(one(Entry("w", "[4611686018427387904,4]", "[0,0]")), 0),
                "tensor w");
  ExpectInvalid(File(one(Entry("w", "[99999999999999999999]", "[0,4]")), 4),
                "shape");
}

TEST_F(SafetensorsTest, GapsOverlapsAndRepetitionsAreInvalid) {
  auto two = [](const std::string& a, const std::string& b) {
    return "{" + a + "," + b + "}";
  };
  const std::string a = Entry("a", "[2]", "[0,8]");
  EXPECT_TRUE(Open(File(two(a, Entry("b", "[1]", "[8,12]")), 12)).ok());
  EXPECT_TRUE(Open(File(two(a, Entry("b", "[0]", "[8,8]")), 8)).ok());
  ExpectInvalid(File(two(a, Entry("b", "[1]", "[4,8]")), 8), "overlaps");
  ExpectInvalid(File(two(a, Entry("b", "[1]", "[12,16]")), 16), "gap");
  ExpectInvalid(File("{" + a + "}", 12), "after the last");
  ExpectInvalid(File(two(a, Entry("a", "[2]", "[0,8]")), 8), "twice");
}

TEST_F(SafetensorsTest, ReadsTheShardsOfAnIndex) {
  testing::WriteSafetensors(Path("one"),
                            {{"a", {.shape = {1}, .values = {1}}}});
  testing::WriteSafetensors(Path("two"),
                            {{"b", {.shape = {1}, .values = {2}}}});
  auto open = [&](const std::string& map) {
    Write("model.safetensors.index.json", "{\"weight_map\":" + map + "}");
    return WeightFiles::Open(folder_).status();
  };
  EXPECT_TRUE(open(R"({"a":"one","b":"two"})").ok());
  EXPECT_EQ(open(R"({"a":"one","b":"three"})").code(),
            absl::StatusCode::kNotFound);
  const absl::Status missing = open(R"({"a":"one","c":"two"})");
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr("two"), HasSubstr("c")));
  EXPECT_EQ(open(R"({"a":"../one"})").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(open("3").code(), absl::StatusCode::kInvalidArgument);
  testing::WriteSafetensors(Path("two"),
                            {{"a", {.shape = {1}, .values = {2}}},
                             {"b", {.shape = {1}, .values = {2}}}});
  const absl::Status twice = open(R"({"a":"one","b":"two"})");
  EXPECT_THAT(twice.message(), HasSubstr("two files"));
}

// A parser whose time is quadratic in the tensors takes half a minute here.
TEST_F(SafetensorsTest, ManyTensorsOpenAndTooManyAreRefused) {
  const auto header = [](int count) {
    std::string text = "{";
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&text, i == 0 ? "" : ",",
                      Entry(absl::StrCat("t", i), "[0]", "[0,0]"));
    }
    return text + "}";
  };
  EXPECT_TRUE(Open(File(header(40000), 0)).ok());
  ExpectInvalid(File(header((1 << 18) + 1), 0), "262145 tensors; the limit is");
}

TEST_F(SafetensorsTest, SaysWhatToDoWithoutSafetensors) {
  const absl::Status none = WeightFiles::Open(folder_).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(none.message(), HasSubstr("download the model's *.safetensors"));
  Write("pytorch_model.bin", "x");
  const absl::Status pickle = WeightFiles::Open(folder_).status();
  EXPECT_EQ(pickle.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      pickle.message(),
      AllOf(HasSubstr("only pytorch_model*.bin"),
            HasSubstr("python3 -c \"import glob, torch"), HasSubstr(folder_)));
}

TEST_F(SafetensorsTest, SaysWhatToDoWithTheNameOfAModel) {
  const auto error = [](const std::string& path) {
    return std::string(WeightFiles::Open(path).status().message());
  };
  EXPECT_THAT(error("Qwen/Qwen3-8B"),
              HasSubstr("hf download Qwen/Qwen3-8B --local-dir Qwen3-8B"));
  for (const char* path : {"/no/such", "./no/such", "no/such/folder", "none",
                           "../such", "no/such.gguf"}) {
    EXPECT_THAT(error(path),
                AllOf(HasSubstr(std::string("cannot read ") + path),
                      ::testing::Not(HasSubstr("hf download"))));
  }
}

// Any file opens or is refused; what opens can be read to its last byte.
TEST_F(SafetensorsTest, MutatedFilesNeverCrash) {
  testing::WriteSafetensors(
      Path(), {{"alpha", {.shape = {3, 2}, .values = std::vector<float>(6, 1)}},
               {"beta", {.shape = {4}, .values = std::vector<float>(4, 2)}}});
  std::ifstream file(Path(), std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good;
    for (int change = 0; change < 1 + i % 3; ++change) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 8);
          break;
        case 2:
          bytes.insert(at, 1, "0123456789[]{},:\""[random() % 17]);
          break;
        default:
          bytes[at] ^= static_cast<char>(1 << random() % 8);
      }
      if (bytes.empty()) bytes = good;
    }
    Write("model.safetensors", bytes);
    const auto opened = SafetensorsFile::Open(Path());
    if (!opened.ok()) {
      ++refused;
      EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    int sum = 0;
    for (const auto& [name, view] : opened->tensors()) {
      for (std::byte byte : view.data) sum += std::to_integer<int>(byte);
    }
    EXPECT_GE(sum, 0);
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace espalier
