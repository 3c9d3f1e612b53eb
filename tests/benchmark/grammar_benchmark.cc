// What a grammar costs a round: the masks of a draft tree, by its nodes, and to
// follow the output.
//
//   grammar_benchmark MODEL [benchmark's flags]
//
// MODEL: a folder or a .gguf file, of which only the tokenizer is read.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/grammar/grammar.h"
#include "common/grammar/vocabulary.h"
#include "common/model/files/model_identity.h"

namespace espalier::grammar {
namespace {

constexpr char kSchema[] =
    R"({"type":"object","properties":{"name":{"type":"string"},)"
    R"("ages":{"type":"array","items":{"type":"integer"}},)"
    R"("kind":{"enum":["tree","shrub","vine"]}},)"
    R"("required":["name","ages","kind"],"additionalProperties":false})";
constexpr char kText[] =
    R"({"name": "A pear on a wall", "ages": [1, 2, 3, 5, 8, 13, 21, 34, 55], )"
    R"("kind": "vine"})";

struct Subject {
  std::unique_ptr<Matcher> matcher;
  std::vector<TokenId> text;
};

// Returns a tree whose first chain is the text after the root, with a wrong
// child at each of its nodes.
TokenTree TreeOf(absl::Span<const TokenId> text, int64_t nodes) {
  TokenTree tree = TokenTree::RootOnly(0);
  int32_t last = 0;
  for (size_t i = 0; tree.num_nodes() < nodes && i < text.size(); ++i) {
    const int32_t parent = last;
    last = tree.Add(parent, text[i], 0);
    if (tree.num_nodes() < nodes) tree.Add(parent, text[i] + 1, 0);
  }
  return tree;
}

void Masks(benchmark::State& state, Subject* subject) {
  const TokenTree tree = TreeOf(subject->text, state.range(0));
  if (!subject->matcher->Follow({}).ok()) std::abort();
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        subject->matcher->MasksOf(tree, absl::InfiniteDuration()));
  }
  state.counters["nodes"] = static_cast<double>(tree.num_nodes());
}

// One token more, and back to the beginning at the end of the text.
void Follow(benchmark::State& state, Subject* subject) {
  size_t length = 0;
  for (auto _ : state) {
    length = length == subject->text.size() ? 0 : length + 1;
    const absl::Span<const TokenId> output = subject->text;
    if (!subject->matcher->Follow(output.first(length)).ok()) std::abort();
  }
}

absl::StatusOr<Subject> Load(const std::string& model) {
  ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(model));
  Subject subject = {.text = tokenizer->Encode(kText)};
  const auto backend = NewBackend(
      VocabularyOf(*tokenizer, tokenizer->vocab_size(), /*end_tokens=*/{2}));
  ASSIGN_OR_RETURN(
      const auto grammar,
      backend->Compile(
          {.kind = GrammarSpec::Kind::kJsonSchema, .text = kSchema}, {}));
  subject.matcher = grammar->NewMatcher();
  return subject;
}

int Main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    std::fputs("usage: grammar_benchmark MODEL [FLAGS]\n", stderr);
    return 2;
  }
  auto subject = Load(argv[1]);
  if (!subject.ok()) {
    std::fprintf(stderr, "%s\n", subject.status().ToString().c_str());
    return 1;
  }
  Subject* const it = &*subject;
  benchmark::RegisterBenchmark(
      "Masks", [it](benchmark::State& state) { Masks(state, it); })
      ->Arg(1)
      ->Arg(8)
      ->Arg(16)
      ->Arg(64)
      ->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("Follow", [it](benchmark::State& state) {
    Follow(state, it);
  })->Unit(benchmark::kMicrosecond);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace espalier::grammar

int main(int argc, char** argv) { return espalier::grammar::Main(argc, argv); }
