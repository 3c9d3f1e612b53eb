#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "common/model/files/model_identity.h"
#include "coordinator/cli/channel.h"
#include "coordinator/cli/client_commands.h"
#include "coordinator/cli/cluster/conformance_checks.h"
#include "coordinator/cli/flags/connection_flags.h"
#include "coordinator/cli/word_wrap.h"
#include "espalier/v1/drafter.grpc.pb.h"

namespace espalier::cli {
namespace {

constexpr char kConformanceUsage[] =
    R"(Usage: espalier conformance ADDRESS [--model FOLDER] [FLAGS]

Checks a drafter service against the protocol (proto/espalier/v1/drafter.proto):
the requirements of every drafter, whatever its algorithm. Prints one line per
check. Exit code 0 if all passed. A drafter that wants features of the target
gets synthetic ones.)";

// Repetitive, so that drafters of all kinds find something to propose.
constexpr char kText[] =
    "The king and the queen and the king and the queen of the land and the "
    "king and the queen of the land said: the king and the queen of the land.";

absl::StatusOr<ConformanceSubject> MakeSubject(const std::string& folder,
                                               absl::Duration timeout) {
  ASSIGN_OR_RETURN(const TargetIdentity target, IdentifyTarget(folder, ""));
  ConformanceSubject subject = {.stub = nullptr,
                                .model = target.identity,
                                .text = target.tokenizer->Encode(kText),
                                .timeout = timeout};
  if (subject.text.size() < 32) {
    return absl::InvalidArgumentError(
        "--model: its tokenizer makes less than 32 tokens of the test's text");
  }
  return subject;
}

// reasons: those that have been printed. What breaks a drafter breaks many
// checks: each reason is printed once.
void PrintResult(const std::string& check, const absl::Status& status,
                 std::set<std::string>& reasons, Context& context) {
  const Screen& screen = context.out_screen;
  context.out << (status.ok() ? screen.Paint(kGreen, "ok      ")
                              : screen.Paint(kRed, "FAILED  "));
  WordWrap line(context.out, screen.columns, /*indent=*/8);
  line.Write(check);
  if (!status.ok()) {
    const std::string reason(status.message());
    line.Write(reasons.insert(reason).second
                   ? absl::StrCat(": ", reason)
                   : std::string(", for a reason that is above"));
  }
  line.Finish();
}

absl::Status Conformance(Context& context, Args args) {
  std::vector<std::string> addresses;
  std::string model = context.places.model.string();
  absl::Duration timeout = absl::Seconds(30);
  std::string token_file;
  ConnectionFlags connection;
  FlagSet flags(kConformanceUsage);
  flags.AddPositional(&addresses, /*limit=*/1);
  flags.Add({"--model", "FOLDER",
             "of the target that it drafts for;\ndefault " + model},
            &model);
  flags.Add({"--timeout", "SECONDS", "limit of one check; default 30"},
            &timeout);
  flags.Add({"--token-file", "FILE", "the drafter's token_file, if it has one"},
            &token_file);
  connection.AddTlsTo(flags);
  ASSIGN_OR_RETURN(const bool parsed, flags.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();
  if (addresses.empty()) {
    return absl::InvalidArgumentError("ADDRESS: of the drafter, is missing");
  }

  ASSIGN_OR_RETURN(ConformanceSubject subject, MakeSubject(model, timeout));
  ASSIGN_OR_RETURN(const Credentials credentials, connection.Read());
  ASSIGN_OR_RETURN(const auto channel, OpenChannel(addresses[0], credentials));
  RETURN_IF_ERROR(
      AwaitConnection(*channel, addresses[0], absl::Now() + timeout));
  const auto stub = v1::Drafter::NewStub(channel);
  subject.stub = stub.get();
  ASSIGN_OR_RETURN(subject.token, AccessToken::ReadFile(token_file));
  size_t num_failed = 0;
  std::set<std::string> reasons;
  for (const ConformanceCheck& check : ConformanceChecks()) {
    const absl::Status status = check.run(subject);
    num_failed += !status.ok();
    PrintResult(check.name, status, reasons, context);
  }
  if (num_failed == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      num_failed, " of ", ConformanceChecks().size(), " checks failed"));
}

}  // namespace

Command ConformanceCommand() {
  return {.name = "conformance",
          .summary = "check a drafter service against the protocol",
          .run = Conformance};
}

}  // namespace espalier::cli
