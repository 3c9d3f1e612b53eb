#include "coordinator/api/stop_text.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/tokenizer/byte_level.h"
#include "common/tokenizer/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/source_path.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class StopTextTest : public ::testing::Test {
 protected:
  StopTextTest() {
    auto loaded = Tokenizer::Load(
        SourcePath("tests/common/tokenizer/testdata/gpt2_style"));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    tokenizer_ = *std::move(loaded);
  }

  StopText Make(std::vector<std::string> stops, bool include = false,
                int64_t min_tokens = 0) const {
    return StopText({.tokenizer = tokenizer_.get(),
                     .stop_strings = std::move(stops),
                     .include_stop_string = include,
                     .min_tokens = min_tokens});
  }

  struct Streamed {
    std::vector<std::string> pieces;  // of each token, then of Flush
    std::string text;
    size_t num_tokens = 0;
  };
  static Streamed Stream(StopText text, const std::vector<TokenId>& tokens) {
    Streamed out;
    for (TokenId token : tokens) {
      out.pieces.push_back(text.Push(token));
      ++out.num_tokens;
      if (text.stop_string()) break;
    }
    out.pieces.push_back(text.Flush());
    for (const std::string& piece : out.pieces) out.text += piece;
    return out;
  }

  // Returns one token per byte, so that tests choose where tokens end.
  std::vector<TokenId> Bytes(const std::string& text) const {
    std::vector<TokenId> tokens;
    for (char byte : text) {
      const auto id =
          tokenizer_->TokenToId(ByteLevelCharacter(static_cast<uint8_t>(byte)));
      EXPECT_TRUE(id.has_value());
      tokens.push_back(id.value_or(0));
    }
    return tokens;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(StopTextTest, HoldsBackWhatMayBeginAStopString) {
  const Streamed out = Stream(Make({"abc"}), Bytes("xabaabd"));
  EXPECT_THAT(out.pieces, ElementsAre("x", "", "", "ab", "a", "", "abd", ""));
}

TEST_F(StopTextTest, EndsBeforeTheStopStringOrAfterIt) {
  EXPECT_EQ(Stream(Make({"abc"}), Bytes("xababcy")).text, "xab");
  const Streamed out =
      Stream(Make({"abc"}, /*include=*/true), Bytes("xababcy"));
  EXPECT_EQ(out.text, "xababc");
  EXPECT_EQ(out.num_tokens, 6u);
}

TEST_F(StopTextTest, TheFirstEndCountsAndOfThoseTheLongest) {
  EXPECT_EQ(Stream(Make({"bcd", "c"}), Bytes("abcd")).text, "ab");
  EXPECT_EQ(Stream(Make({"c", "abc"}), Bytes("xabc")).text, "x");
}

TEST_F(StopTextTest, BytesOfACharacterWaitForEachOther) {
  const Streamed out = Stream(Make({"é!"}), Bytes("aéé!b"));
  EXPECT_EQ(out.text, "aé");
  EXPECT_EQ(out.num_tokens, 6u);
}

TEST_F(StopTextTest, StopStringThatTheFirstTokensCompleteDoesNotCount) {
  EXPECT_EQ(Stream(Make({"b"}, false, 2), Bytes("abcab")).text, "abca");
  EXPECT_EQ(Stream(Make({"abc"}, false, 2), Bytes("abc")).text, "");
}

TEST_F(StopTextTest, TextThatWasHeldBackComesAtTheEnd) {
  EXPECT_EQ(Stream(Make({"abc"}), Bytes("xab")).text, "xab");
}

TEST_F(StopTextTest, SpecialTokensHaveTheirTextIfItIsWanted) {
  const auto special = tokenizer_->FindSpecial("<|endoftext|>", 0);
  ASSERT_TRUE(special.has_value());
  const TokenId token = *tokenizer_->TokenToId("<|endoftext|>");
  StopText hidden({.tokenizer = tokenizer_.get()});
  EXPECT_THAT(hidden.Push(token), IsEmpty());
  StopText shown({.tokenizer = tokenizer_.get(), .show_special = true});
  EXPECT_EQ(shown.Push(token), "<|endoftext|>");
}

// The beginning and the end of the first stop string in `text`, or npos.
struct Found {
  size_t begin = std::string::npos;
  size_t end = std::string::npos;
};
Found FirstStop(const std::string& text,
                const std::vector<std::string>& stops) {
  Found found;
  for (const std::string& stop : stops) {
    const size_t begin = text.find(stop);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (end < found.end || (end == found.end && begin < found.begin)) {
      found = {begin, end};
    }
  }
  return found;
}

TEST_F(StopTextTest, RandomTextsAndTokensEndWhereASearchOfTheWholeTextDoes) {
  std::mt19937 random(5);
  const auto some_text = [&](size_t size) {
    static const std::vector<std::string> kParts = {"a",    "b",  " the", "é",
                                                    "the ", "an", "\n"};
    std::string text;
    for (size_t i = 0; i < size; ++i) text += kParts[random() % kParts.size()];
    return text;
  };
  int found_count = 0, spanning = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const std::string whole = some_text(1 + random() % 30);
    std::vector<std::string> stops;
    for (size_t i = 0; i < 1 + random() % 3; ++i) {
      stops.push_back(some_text(1 + random() % 4));
    }
    const std::vector<TokenId> tokens =
        random() % 2 ? Bytes(whole) : tokenizer_->Encode(whole);
    const bool include = random() % 2;
    const Found found = FirstStop(whole, stops);
    const Streamed out = Stream(Make(stops, include), tokens);
    EXPECT_EQ(out.text, whole.substr(0, include ? found.end : found.begin));
    if (found.end == std::string::npos) continue;
    ++found_count;
    std::string before;
    for (size_t i = 0; i + 1 < out.num_tokens; ++i) {
      before += tokenizer_->BytesOf(tokens[i]);
    }
    EXPECT_LT(before.size(), found.end) << "a token too many";
    if (before.size() > found.begin) ++spanning;
  }
  EXPECT_GT(found_count, 500);
  EXPECT_GT(spanning, 200);
}

}  // namespace
}  // namespace espalier::coordinator
