#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "common/tokenizer/tokenizer.h"
#include "tests/common/tokenizer/golden_files.h"

namespace espalier {
namespace {

TEST(TokenizerThreadsTest, ServesManyThreads) {
  const auto tokenizer = LoadOrDie(Testdata("small"));
  const std::vector<std::string> texts = GoldenTexts();
  const auto encode_all = [&] {
    std::vector<std::vector<TokenId>> all;
    for (const std::string& text : texts)
      all.push_back(tokenizer->Encode(text));
    return all;
  };
  const auto expected = encode_all();
  std::vector<std::vector<std::vector<TokenId>>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] { result = encode_all(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace espalier
