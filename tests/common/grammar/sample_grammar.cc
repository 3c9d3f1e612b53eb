// Random texts of grammars, for tests/deploy/schema_samples_test.py: each line
// of the input is {"kind": "json_schema" | "regex" | "json_object" |
// "structural_tag", "text": ..., "compact": ..., "seed": ..., "count": ...},
// and each line of the output {"refused": why} or {"texts": [...],
// "unfinished": number}. Tokens are drawn from the masks, all that are allowed
// alike, as a model at a high temperature draws them; marks more often, so that
// texts end.
#include <iostream>
#include <random>
#include <string>

#include "common/grammar/grammar.h"
#include "nlohmann/json.hpp"
#include "tests/common/grammar/test_vocabulary.h"

namespace espalier::grammar {
namespace {

using Json = nlohmann::json;
using Kind = GrammarSpec::Kind;

constexpr size_t kMaxTokens = 600;
constexpr std::string_view kMarks = "\"}],:0";

GrammarSpec SpecOf(const Json& line) {
  GrammarSpec spec = {.text = line.value("text", ""),
                      .compact = line.value("compact", false)};
  const std::string kind = line.at("kind");
  spec.kind = kind == "regex"            ? Kind::kRegex
              : kind == "json_object"    ? Kind::kJsonObject
              : kind == "structural_tag" ? Kind::kStructuralTag
                                         : Kind::kJsonSchema;
  return spec;
}

class Sampler {
 public:
  Sampler() : vocabulary_(LargeVocabulary(400)) {
    backend_ = NewBackend(vocabulary_);
  }

  Json Answer(const Json& line) const {
    const auto grammar = backend_->Compile(SpecOf(line), {});
    if (!grammar.ok()) {
      return {{"refused", std::string(grammar.status().message())}};
    }
    std::mt19937_64 random(line.value("seed", 0));
    Json texts = Json::array();
    int unfinished = 0;
    for (int i = 0; i < line.value("count", 1); ++i) {
      const auto text = Draw(**grammar, random);
      if (text) {
        texts.push_back(*text);
      } else {
        ++unfinished;
      }
    }
    return {{"texts", std::move(texts)}, {"unfinished", unfinished}};
  }

 private:
  std::optional<std::string> Draw(const Grammar& grammar,
                                  std::mt19937_64& random) const {
    const auto matcher = grammar.NewMatcher();
    std::vector<TokenId> output;
    std::string text;
    while (output.size() < kMaxTokens) {
      if (!matcher->Follow(output).ok()) return std::nullopt;
      const auto mask =
          matcher->MasksOf(TokenTree::RootOnly(0), absl::InfiniteDuration());
      if (!mask.ok()) return std::nullopt;
      std::vector<TokenId> allowed = mask->Allowed(0);
      if (random() % 3 == 0) {
        std::vector<TokenId> marks;
        for (const char mark : kMarks) {
          if (mask->Allows(0, static_cast<TokenId>(mark))) {
            marks.push_back(static_cast<TokenId>(mark));
          }
        }
        if (!marks.empty()) allowed = std::move(marks);
      }
      const TokenId token = allowed[random() % allowed.size()];
      const bool ends = std::find(vocabulary_.end_tokens.begin(),
                                  vocabulary_.end_tokens.end(),
                                  token) != vocabulary_.end_tokens.end();
      if (ends) return text;
      output.push_back(token);
      text += vocabulary_.tokens[static_cast<size_t>(token)];
    }
    return std::nullopt;
  }

  const Vocabulary vocabulary_;
  std::unique_ptr<Backend> backend_;
};

int Main() {
  const Sampler sampler;
  for (std::string line; std::getline(std::cin, line);) {
    // A text that is no UTF-8 is a fault: it becomes one for the reader.
    std::cout << sampler.Answer(Json::parse(line))
                     .dump(-1, ' ', false, Json::error_handler_t::replace)
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace espalier::grammar

int main() { return espalier::grammar::Main(); }
