#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "common/rpc/peer_state_name.h"
#include "coordinator/cli/client_commands.h"
#include "coordinator/cli/flags/connection_flags.h"
#include "coordinator/cli/flags/endpoint_flags.h"
#include "coordinator/cli/word_wrap.h"

namespace espalier::cli {
namespace {

constexpr char kInfoUsage[] =
    R"(Usage: espalier info [FLAGS]

Prints the model that a coordinator serves, its peers, and its load.)";

constexpr int kNameColumns = 12;

// Continuation lines of a value are aligned below it.
void PrintField(Context& context, absl::string_view name,
                const std::string& value) {
  context.out << context.out_screen.Paint(
      kDim, absl::StrFormat("%-*s", kNameColumns, name));
  WordWrap line(context.out, context.out_screen.columns, kNameColumns);
  line.Write(value);
  line.Finish();
}

template <typename List>
std::string Joined(const List& list) {
  return list.empty() ? "none" : absl::StrJoin(list, ", ");
}

std::string FeaturesText(v1::PeerInfo::Features features) {
  switch (features) {
    case v1::PeerInfo::FEATURES_BYTES:
      return "; features: bytes";
    case v1::PeerInfo::FEATURES_DEVICE_RING:
      return "; features: device ring";
    default:
      return "";
  }
}

std::string PeerText(const v1::PeerInfo& peer) {
  return absl::StrCat(
      peer.name(), peer.name().empty() ? "" : " ", PeerStateName(peer.state()),
      peer.detail().empty() ? "" : absl::StrCat(" (", peer.detail(), ")"),
      peer.address().empty() ? "" : absl::StrCat(" at ", peer.address()));
}

// The replicas of a peer, one line each.
void PrintLinks(const v1::PeerInfo& peer, Context& context) {
  for (const v1::PeerInfo& link : peer.links()) {
    PrintField(context, "  replica",
               absl::StrCat(PeerText(link), ", ", link.sessions(),
                            link.sessions() == 1 ? " session" : " sessions"));
  }
}

std::string CostsText(const v1::PeerInfo& verifier) {
  return absl::StrCat("ms by rows: ",
                      absl::StrJoin(verifier.pass_costs(), ", ",
                                    [](std::string* out, const auto& cost) {
                                      absl::StrAppend(
                                          out, cost.rows(), ": ",
                                          absl::StrFormat("%.2f", cost.ms()));
                                    }));
}

std::string MemoryText(const v1::PeerInfo::Memory& memory) {
  std::string text = absl::StrFormat(
      "K/V of %d of %d tokens in use, %d cached", memory.kv_tokens_used(),
      memory.kv_tokens(), memory.kv_tokens_cached());
  if (memory.device_bytes() > 0) {
    constexpr double kGibibyte = 1 << 30;
    absl::StrAppendFormat(
        &text, "; %.1f of %.1f GiB of the GPU in use",
        static_cast<double>(memory.device_bytes_used()) / kGibibyte,
        static_cast<double>(memory.device_bytes()) / kGibibyte);
  }
  return text;
}

void PrintServer(const v1::GetServerInfoResponse& info, Context& context) {
  PrintField(
      context, "version",
      absl::StrCat(info.version(), ", protocol ", info.protocol_version(),
                   ", since ",
                   absl::FormatTime(absl::FromUnixSeconds(info.start_time()))));
  PrintField(context, "verifier", PeerText(info.verifier()));
  PrintLinks(info.verifier(), context);
  if (info.verifier().pass_costs_size() > 0) {
    PrintField(context, "forward", CostsText(info.verifier()));
  }
  if (info.verifier().has_memory()) {
    PrintField(context, "memory", MemoryText(info.verifier().memory()));
  }
  for (const v1::PeerInfo& drafter : info.drafters()) {
    PrintField(context, "drafter",
               PeerText(drafter) + FeaturesText(drafter.features()));
    PrintLinks(drafter, context);
  }
}

void PrintLoad(const v1::GetLoadResponse& load, Context& context) {
  PrintField(
      context, "load",
      absl::StrFormat("%d of %d running, %d of %d queued",
                      load.running_requests(), load.max_running_requests(),
                      load.queued_requests(), load.max_queued_requests()));
}

void PrintModel(const v1::GetModelInfoResponse& info, Context& context) {
  PrintField(context, "model", info.model());
  PrintField(context, "vocabulary",
             absl::StrFormat("%d tokens, fingerprint %016x", info.vocab_size(),
                             info.tokenizer_fingerprint()));
  PrintField(context, "context", absl::StrCat(info.max_context(), " tokens"));
  PrintField(context, "end tokens", Joined(info.eos_token_ids()));
  PrintField(context, "strategies", Joined(info.strategies()));
  PrintField(context, "rules", Joined(info.rules()));
  PrintField(context, "drafters", Joined(info.drafters()));
  PrintField(context, "tree",
             absl::StrCat(info.max_tree_nodes(), " nodes at most"));
}

absl::Status RunInfo(Context& context, Args args) {
  std::string address = context.places.address;
  CallOptions call = {.timeout = absl::Seconds(5)};
  ConnectionFlags connection;
  FlagSet flags(kInfoUsage);
  flags.Add({"--address", "ADDRESS",
             "HOST:PORT or unix:PATH of the coordinator;\n"
             "default the quick start's: " +
                 address},
            &address);
  flags.Add({"--timeout", "SECONDS", "limit of each call; default 5"},
            &call.timeout);
  connection.AddTo(flags);
  ASSIGN_OR_RETURN(const bool parsed, flags.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();

  ASSIGN_OR_RETURN(const Credentials credentials, connection.Read());
  ASSIGN_OR_RETURN(const auto client,
                   InferenceClient::Create(address, credentials));
  // The model comes last: it is unknown until a verifier is connected, and the
  // server's part says why.
  ASSIGN_OR_RETURN(const auto server, client->GetServerInfo(call));
  PrintServer(server, context);
  ASSIGN_OR_RETURN(const auto load, client->GetLoad(call));
  PrintLoad(load, context);
  ASSIGN_OR_RETURN(const auto model, client->GetModelInfo(call));
  PrintModel(model, context);
  return absl::OkStatus();
}

}  // namespace

Command InfoCommand() {
  return {.name = "info",
          .summary = "show a coordinator's model, peers and load",
          .run = RunInfo};
}

}  // namespace espalier::cli
