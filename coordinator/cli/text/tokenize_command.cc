#include <istream>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "common/json/ordered_json.h"
#include "common/model/files/model_identity.h"
#include "common/tokenizer/tokenizer.h"
#include "coordinator/cli/client_commands.h"
#include "nlohmann/json.hpp"

namespace espalier::cli {
namespace {

constexpr char kTokenizeUsage[] =
    R"(Usage: espalier tokenize [FLAGS] < LINES

Prints the token ids of each line of standard input, separated by commas, as
`generate --token-ids` expects them. Special tokens in the text are recognised.
With --decode the lines are token ids, and their text is printed. With --json
each line becomes an object {"token_ids": [..], "text": ".."}.)";

using Json = nlohmann::ordered_json;

struct TokenizeOptions {
  std::string model;
  bool decode = false;
  bool json = false;
};

// Ids separated by commas or blanks; brackets around them are allowed.
absl::StatusOr<std::vector<TokenId>> ParseIds(const std::string& line,
                                              int64_t vocab_size) {
  std::vector<TokenId> ids;
  for (absl::string_view part :
       absl::StrSplit(line, absl::ByAnyChar(", \t\r[]"), absl::SkipEmpty())) {
    TokenId id = 0;
    if (!absl::SimpleAtoi(part, &id) || id < 0 || id >= vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", part, "\" is not a token id of 0 .. ", vocab_size - 1));
    }
    ids.push_back(id);
  }
  return ids;
}

void Print(const std::vector<TokenId>& ids, const std::string& text,
           const TokenizeOptions& options, std::ostream& out) {
  if (options.json) {
    out << ToText(Json({{"token_ids", ids}, {"text", text}}));
  } else if (options.decode) {
    out << text;
  } else {
    out << absl::StrJoin(ids, ",");
  }
  out << "\n";
}

absl::Status TokenizeLines(const Tokenizer& tokenizer,
                           const TokenizeOptions& options, Context& context) {
  std::string line;
  for (int64_t number = 1; std::getline(context.in, line); ++number) {
    if (!options.decode) {
      Print(tokenizer.Encode(line), line, options, context.out);
      continue;
    }
    const auto ids = ParseIds(line, tokenizer.vocab_size());
    if (!ids.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": ", ids.status().message()));
    }
    Print(*ids, tokenizer.Decode(*ids, /*skip_special=*/false), options,
          context.out);
  }
  return absl::OkStatus();
}

absl::Status RunTokenize(Context& context, Args args) {
  TokenizeOptions options = {.model = context.places.model.string()};
  FlagSet flags(kTokenizeUsage);
  flags.Add({"--model", "PATH",
             "a model's folder or .gguf file, or a tokenizer.json;\n"
             "default " +
                 options.model},
            &options.model);
  flags.AddSwitch({"--decode", "", "from token ids to text"}, &options.decode);
  flags.AddSwitch({"--json", "", "one JSON object per line"}, &options.json);
  ASSIGN_OR_RETURN(const bool parsed, flags.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();

  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                   LoadTokenizer(options.model));
  return TokenizeLines(*tokenizer, options, context);
}

}  // namespace

Command TokenizeCommand() {
  return {.name = "tokenize",
          .summary = "convert text to token ids and back",
          .run = RunTokenize};
}

}  // namespace espalier::cli
