#include <ostream>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "coordinator/cli/answer.h"
#include "coordinator/cli/client_commands.h"
#include "coordinator/cli/endpoint_flags.h"
#include "coordinator/cli/flag_set.h"
#include "coordinator/cli/generate_flags.h"

namespace espalier::cli {
namespace {

constexpr char kGenerateUsage[] =
    R"(Usage: espalier generate (--prompt TEXT | --chat TEXT | --prompt-file FILE |
                          --token-ids 1,2,3) [FLAGS]

Streams the answer to standard output. Then one line goes to standard error, so
that `espalier generate ... > FILE` keeps the answer alone: tau (tokens per
verification), tokens/s, and of the accepted drafted tokens the part that each
drafter had proposed (one that two proposed counts for both).

tokens/s counts the tokens behind the first message of the stream and the time
behind it, so prefill is not in it.

With --json, one object on one line instead of the text. Ctrl-C cancels.)";

absl::Status PrintText(const Endpoint& endpoint,
                       const v1::GenerateRequest& request,
                       const CallOptions& call, Context& context) {
  bool at_line_start = true;
  auto print = [&](const std::string& text) {
    context.out << text << std::flush;
    at_line_start = text.back() == '\n';
    return context.out.good();
  };
  auto answer = endpoint.client->Generate(request, call, print);
  if (!at_line_start) context.out << std::endl;
  RETURN_IF_ERROR(answer.status());
  context.err << ToLine(*answer) << std::endl;
  return absl::OkStatus();
}

absl::Status PrintJson(const Endpoint& endpoint,
                       const v1::GenerateRequest& request,
                       const CallOptions& call, Context& context) {
  auto ignore = [](const std::string&) { return true; };
  ASSIGN_OR_RETURN(const Answer answer,
                   endpoint.client->Generate(request, call, ignore));
  context.out << ToJson(answer) << std::endl;
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
  flags.Add({"--timeout", "SECONDS", "of the whole call; default 600"},
            &call.timeout);
  flags.AddSwitch({"--json", "", "print one JSON object"}, &json);
  ASSIGN_OR_RETURN(const bool parsed, flags.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();

  ASSIGN_OR_RETURN(const Endpoint endpoint,
                   endpoint_flags.Open(context.places, local_cluster));
  ASSIGN_OR_RETURN(const v1::GenerateRequest request,
                   generate_flags.ToRequest(context.in));
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
