#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "common/model/files/model_identity.h"
#include "common/tokenizer/tokenizer.h"
#include "coordinator/cli/client_commands.h"
#include "coordinator/cli/input_file.h"
#include "drafter/ngram/ngram_table_builder.h"

namespace espalier::cli {
namespace {

constexpr char kNgramUsage[] =
    R"(Usage: espalier ngram --text FILE [--text FILE ...] --out TABLE [FLAGS]

Builds the table of a drafter of type "ngram": counts which tokens follow which
contexts in the texts. Each file is a document: no n-gram extends past its end.
- is standard input.)";

struct NgramFlags {
  std::string model;
  Repeated texts = {};
  std::string out = {};
  uint32_t order = 2;
  uint32_t top = 16;
  uint32_t min_count = 1;

  void AddTo(FlagSet& flags);
};

void NgramFlags::AddTo(FlagSet& flags) {
  flags.Add({"--text", "FILE", "a text to count; repeatable"}, &texts);
  flags.Add({"--out", "TABLE", "the file to write"}, &out);
  flags.Add(
      {"--model", "PATH", "a model's folder or .gguf file; default\n" + model},
      &model);
  flags.Add({"--order", "N", "tokens per n-gram; default 2: bigrams"}, &order);
  flags.Add({"--top", "K", "successors kept per context; default 16"}, &top);
  flags.Add({"--min-count", "C", "drop rarer successors; default 1"},
            &min_count);
}

absl::Status RunNgram(Context& context, Args args) {
  NgramFlags flags = {.model = context.places.model.string()};
  FlagSet flag_set(kNgramUsage);
  flags.AddTo(flag_set);
  ASSIGN_OR_RETURN(const bool parsed, flag_set.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();
  if (flags.texts.values.empty() || flags.out.empty()) {
    return absl::InvalidArgumentError("give --text and --out");
  }

  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                   LoadTokenizer(flags.model));
  size_t next = 0;
  int64_t tokens = 0;
  auto next_document =
      [&](std::vector<TokenId>& document) -> absl::StatusOr<bool> {
    if (next == flags.texts.values.size()) return false;
    ASSIGN_OR_RETURN(const std::string text,
                     ReadInput(flags.texts.values[next++], context.in));
    document = tokenizer->Encode(text);
    tokens += static_cast<int64_t>(document.size());
    return true;
  };
  RETURN_IF_ERROR(drafter::BuildNgramTable(
      {.order = flags.order,
       .vocab_size = tokenizer->vocab_size(),
       .tokenizer_fingerprint = tokenizer->fingerprint(),
       .max_successors = flags.top,
       .min_count = flags.min_count},
      next_document, flags.out));
  context.out << tokens << " tokens counted into " << flags.out << "\n";
  return absl::OkStatus();
}

}  // namespace

Command NgramCommand() {
  return {.name = "ngram",
          .summary = "build an n-gram drafter's table from texts",
          .run = RunNgram};
}

}  // namespace espalier::cli
