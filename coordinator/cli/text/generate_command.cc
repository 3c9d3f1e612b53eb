#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "coordinator/cli/answer.h"
#include "coordinator/cli/client_commands.h"
#include "coordinator/cli/flags/endpoint_flags.h"
#include "coordinator/cli/text/generate_flags.h"
#include "coordinator/cli/text/print_statistics.h"
#include "coordinator/cli/word_wrap.h"

namespace espalier::cli {
namespace {

constexpr char kGenerateUsage[] =
    R"(Usage: espalier generate (--prompt TEXT | --chat TEXT | --prompt-file FILE |
                          --token-ids 1,2,3) [FLAGS]

Streams the answer to standard output, then prints one line to standard error
(so `espalier generate ... > FILE` writes the answer alone): tau (emitted tokens
per verification), tokens/s, and each drafter's share of the accepted draft
tokens (a token that two drafters proposed counts for both), and the time that
speculation won or lost, compared with plain decoding as the server measured it.

Before that line, "warning: ..." names parts of the request that were not
followed, such as a rule that no drafter supports.

tokens/s counts the tokens and the time after the first message of the stream,
so it excludes the prefill.

With --n, the outputs after the first follow it, each after a line "== output I".

With --json, prints one object on one line for each output instead of the text.
Ctrl-C cancels.)";

absl::Status PrintText(const Endpoint& endpoint,
                       const v1::GenerateRequest& request,
                       const CallOptions& call, Context& context) {
  WordWrap lines(context.out, context.out_screen.columns);
  auto print = [&](const std::string& text) {
    lines.Write(text);
    return context.out.good();
  };
  auto answers = endpoint.client->GenerateAll(request, call, print);
  lines.Finish();
  RETURN_IF_ERROR(answers.status());
  for (const Answer& answer : *answers) {
    if (answer.index > 0) {
      context.out << "== output " << answer.index << "\n";
      lines.Write(answer.text);
      lines.Finish();
    }
    for (const std::string& warning : WarningsOf(answer)) {
      context.err << "warning: " << warning << "\n";
    }
    PrintStatistics(answer, context);
  }
  return absl::OkStatus();
}

absl::Status PrintJson(const Endpoint& endpoint,
                       const v1::GenerateRequest& request,
                       const CallOptions& call, Context& context) {
  auto ignore = [](const std::string&) { return true; };
  ASSIGN_OR_RETURN(const std::vector<Answer> answers,
                   endpoint.client->GenerateAll(request, call, ignore));
  for (const Answer& answer : answers) {
    context.out << ToJson(answer) << std::endl;
  }
  return absl::OkStatus();
}

absl::Status RunGenerate(const LocalClusterFactory& local_cluster,
                         Context& context, Args args) {
  EndpointFlags endpoint_flags;
  GenerateFlags generate_flags;
  CallOptions call = {.timeout = absl::Minutes(10),
                      .interrupt = context.interrupt};
  bool json = false;
  FlagSet flags(kGenerateUsage);
  generate_flags.AddTo(flags);
  endpoint_flags.AddTo(flags, context.places);
  flags.Add({"--timeout", "SECONDS", "limit of the whole call; default 600"},
            &call.timeout);
  flags.AddSwitch({"--json", "", "print one JSON object"}, &json);
  ASSIGN_OR_RETURN(const bool parsed, flags.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();

  ASSIGN_OR_RETURN(const Endpoint endpoint,
                   endpoint_flags.Open(context.places, local_cluster));
  ASSIGN_OR_RETURN(const v1::GenerateRequest request,
                   generate_flags.ToRequest(context.in));
  if (!json && (request.has_logprobs() || request.has_prompt_logprobs())) {
    return absl::InvalidArgumentError(
        "--logprobs and --prompt-logprobs are printed with --json only");
  }
  return json ? PrintJson(endpoint, request, call, context)
              : PrintText(endpoint, request, call, context);
}

}  // namespace

Command GenerateCommand(LocalClusterFactory local_cluster) {
  return {.name = "generate",
          .summary = "stream an answer",
          .run = [factory = std::move(local_cluster)](
                     Context& context,
                     Args args) { return RunGenerate(factory, context, args); },
          .interruptible = true};
}

}  // namespace espalier::cli
