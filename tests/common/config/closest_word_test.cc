#include "common/config/closest_word.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace espalier {
namespace {

TEST(DidYouMean, NamesTheWordThatIsNearest) {
  const std::vector<std::string> flags = {"--model", "--modes", "--max-tokens",
                                          "--set", "-n"};
  EXPECT_EQ(DidYouMean("--modl", flags), "; did you mean --model?");
  EXPECT_EQ(DidYouMean("--mode", flags), "; did you mean --model?");
  EXPECT_EQ(DidYouMean("--max_tokens", flags), "; did you mean --max-tokens?");
  EXPECT_EQ(DidYouMean("--max", flags), "; did you mean --max-tokens?");
  EXPECT_EQ(DidYouMean("--temperature", flags), "");
  EXPECT_EQ(DidYouMean("--", flags), "");
  EXPECT_EQ(DidYouMean("", flags), "");
  EXPECT_EQ(DidYouMean("--model", {}), "");
  EXPECT_EQ(DidYouMean(std::string(1 << 20, 'x'), flags), "");
}

TEST(DidYouMean, ForgivesTwoLettersThatChangedPlaces) {
  EXPECT_EQ(DidYouMean("bnech", {"bench"}), "; did you mean bench?");
  EXPECT_EQ(DidYouMean("genreate", {"generate", "chat"}),
            "; did you mean generate?");
}

}  // namespace
}  // namespace espalier
