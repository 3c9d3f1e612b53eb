#include "common/base/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

TEST(Utf8RepairTest, LeavesValidTextAlone) {
  const std::string text("a\0é€𝒯\x7F", 12);
  EXPECT_EQ(RepairUtf8(text), text);
}

TEST(Utf8RepairTest, ReplacesEachMaximalSubpartOnce) {
  // The example of the Unicode Standard, table 3-11, and what Python and Rust
  // make of surrogates, overlong forms and values above U+10FFFF.
  const std::string r = kReplacement;
  EXPECT_EQ(RepairUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            absl::StrCat(r, r, r, r, "A"));
  EXPECT_EQ(RepairUtf8("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(RepairUtf8("\xC0\xAF"), r + r);
  EXPECT_EQ(RepairUtf8("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(RepairUtf8("\xE2\x82"), r);
  EXPECT_EQ(RepairUtf8("\xE2\x82("), r + "(");
}

TEST(Utf8RepairTest, HoldsBackOnlyTheBeginningOfACharacter) {
  Utf8Repair repair;
  std::string out;
  repair.Push("a\xE2\x82", out);
  EXPECT_EQ(out, "a");
  repair.Push("\xAC", out);
  EXPECT_EQ(out, "a€");
  repair.Push("\xF0\x9F", out);
  repair.Push("\xE2", out);
  EXPECT_EQ(out, "a€" + kReplacement);
  repair.Flush(out);
  EXPECT_EQ(out, "a€" + kReplacement + kReplacement);
}

TEST(Utf8RepairTest, DoesNotDependOnWhereTheBytesAreCut) {
  std::mt19937 random(1);
  // Bytes that begin, continue and break sequences.
  const std::string kBytes = "aZ\x80\x9F\xA0\xBF\xC2\xE0\xE2\xED\xF0\xF4\xFF";
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) bytes += kBytes[random() % kBytes.size()];
    Utf8Repair repair;
    std::string out;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = 1 + random() % 4;
      repair.Push(std::string_view(bytes).substr(at, size), out);
      at += size;
    }
    repair.Flush(out);
    EXPECT_EQ(out, RepairUtf8(bytes));
    EXPECT_EQ(RepairUtf8(out), out);
  }
}

TEST(CodePointAtTest, ReadsEverySize) {
  const std::string text = "aé€𝒯";
  EXPECT_EQ(CodePointAt(text, 0).value, U'a');
  EXPECT_EQ(CodePointAt(text, 1).value, U'é');
  EXPECT_EQ(CodePointAt(text, 3).value, U'€');
  EXPECT_EQ(CodePointAt(text, 6).value, U'𝒯');
  EXPECT_EQ(CodePointAt(text, 6).size, 4u);
}

}  // namespace
}  // namespace espalier
