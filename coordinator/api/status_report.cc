#include "coordinator/api/status_report.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/utf8.h"
#include "common/base/version.h"
#include "common/json/ordered_json.h"
#include "common/rpc/peer_state_name.h"
#include "coordinator/metrics/metrics_snapshot.h"

namespace espalier::coordinator {
namespace {

// ---- counters ----

// Counters of the rounds that speculated, and of all tokens.
OrderedJson Counters(const MetricsSnapshot& seen) {
  return {{"drafts", seen.speculated.drafts},
          {"draft_tokens", seen.speculated.draft_tokens},
          {"accepted_tokens", seen.speculated.accepted_tokens},
          {"emitted_tokens", seen.speculated.emitted_tokens},
          {"generated_tokens", seen.generated_tokens},
          {"degraded_rounds", seen.degraded_rounds},
          {"all_rounds", seen.all_rounds},
          // By the drafters that were asked: seconds won, below 0 those lost.
          {"speculation_balance_seconds", seen.balance_seconds}};
}

// ---- requests that have ended ----

// Percentiles since the start, in milliseconds; null: nothing has ended yet.
OrderedJson LatencyJson(const MetricsSnapshot::Observed& seen) {
  if (seen.sample_count == 0) return nullptr;
  const double requests = static_cast<double>(seen.sample_count);
  return {{"requests", requests},
          {"mean_ms", 1e3 * seen.sample_sum / requests},
          {"p50_ms", 1e3 * QuantileOf(seen, 0.5)},
          {"p95_ms", 1e3 * QuantileOf(seen, 0.95)},
          {"p99_ms", 1e3 * QuantileOf(seen, 0.99)}};
}

OrderedJson LatenciesJson(const MetricsSnapshot& seen) {
  return {{"time_to_first_token", LatencyJson(seen.time_to_first_token)},
          {"time_per_output_token", LatencyJson(seen.time_per_output_token)},
          {"request_duration", LatencyJson(seen.request_duration)}};
}

double FailedRequests(const MetricsSnapshot& seen) {
  double failed = 0;
  for (const auto& [code, count] : seen.requests) {
    if (code != "OK" && code != "CANCELLED") failed += count;
  }
  return failed;
}

OrderedJson HistoryJson(const std::vector<StatusSample>& samples) {
  OrderedJson history = OrderedJson::array();
  for (const StatusSample& sample : samples) {
    history.push_back({{"at_s", sample.at_s},
                       {"generated_tokens", sample.generated_tokens},
                       {"emitted_tokens", sample.emitted_tokens},
                       {"drafts", sample.drafts},
                       {"failed_requests", sample.failed_requests}});
  }
  return history;
}

// ---- peers ----

const char* RoleName(DrafterRole role) {
  switch (role) {
    case DrafterRole::kOff:
      return "off";
    case DrafterRole::kShadow:
      return "shadow";
    case DrafterRole::kActive:
      return "active";
  }
  return "";
}

const char* PathName(Coordinator::FeaturePath path) {
  switch (path) {
    case Coordinator::FeaturePath::kNone:
      return "";
    case Coordinator::FeaturePath::kBytes:
      return "bytes";
    case Coordinator::FeaturePath::kDeviceRing:
      return "device ring";
  }
  return "";
}

OrderedJson PeerJson(const v1::PeerInfo& peer) {
  OrderedJson links = OrderedJson::array();
  for (const v1::PeerInfo& link : peer.links()) {
    links.push_back({{"address", link.address()},
                     {"state", PeerStateName(link.state())},
                     {"detail", link.detail()},
                     {"sessions", link.sessions()}});
  }
  return {{"address", peer.address()},
          {"state", PeerStateName(peer.state())},
          {"detail", peer.detail()},
          {"links", std::move(links)}};
}

OrderedJson VerifierJson(const v1::PeerInfo& peer) {
  OrderedJson verifier = PeerJson(peer);
  verifier["pass_costs"] = OrderedJson::array();
  for (const v1::PeerInfo::PassCost& cost : peer.pass_costs()) {
    verifier["pass_costs"].push_back(
        {{"rows", cost.rows()}, {"ms", cost.ms()}});
  }
  const v1::PeerInfo::Memory& memory = peer.memory();
  verifier["memory"] = {{"kv_tokens", memory.kv_tokens()},
                        {"kv_tokens_used", memory.kv_tokens_used()},
                        {"kv_tokens_cached", memory.kv_tokens_cached()},
                        {"device_bytes", memory.device_bytes()},
                        {"device_bytes_used", memory.device_bytes_used()}};
  return verifier;
}

OrderedJson DraftersJson(
    const v1::GetServerInfoResponse& peers,
    const std::vector<Coordinator::DrafterStatus>& drafters,
    const MetricsSnapshot& seen) {
  OrderedJson out = OrderedJson::array();
  for (int i = 0; i < peers.drafters_size(); ++i) {
    OrderedJson drafter = PeerJson(peers.drafters(i));
    const Coordinator::DrafterStatus& status = drafters[i];
    drafter["name"] = status.name;
    drafter["role"] = RoleName(status.settings.role);
    drafter["circuit_open"] = status.circuit_open;
    drafter["features"] = PathName(status.features);
    drafter["proposed"] = status.proposed_tokens;
    drafter["accepted"] = status.accepted_tokens;
    drafter["uniquely_accepted"] = status.uniquely_accepted_tokens;
    drafter["asked_rounds"] = seen.drafters[i].asked_rounds;
    drafter["requests"] = seen.drafters[i].requests;
    drafter["ahead"] = seen.drafters[i].ahead;
    out.push_back(std::move(drafter));
  }
  return out;
}

// ---- rounds ----

OrderedJson RequestJson(const JournalRequest& request) {
  return {{"id", request.id},
          {"strategy", request.strategy},
          {"live", request.live},
          {"rounds", request.num_rounds},
          {"tokens", request.num_tokens}};
}

// Indices of the drafters that proposed a node.
OrderedJson OwnersJson(uint64_t bits) {
  OrderedJson owners = OrderedJson::array();
  for (int i = 0; bits != 0; bits >>= 1, ++i) {
    if (bits & 1) owners.push_back(i);
  }
  return owners;
}

OrderedJson RoundJson(const JournalRound& round, const Tokenizer& tokenizer) {
  const auto text = [&tokenizer](TokenId id) -> OrderedJson {
    return RepairUtf8(tokenizer.BytesOf(id));
  };
  OrderedJson tokens = OrderedJson::array();
  for (TokenId id : round.tree.tokens) tokens.push_back(text(id));
  OrderedJson owners = OrderedJson::array();
  for (uint64_t bits : round.tree.provenance)
    owners.push_back(OwnersJson(bits));
  OrderedJson emitted = OrderedJson::array();
  for (TokenId id : round.tokens) emitted.push_back(text(id));
  return {{"step", round.step},
          {"token", std::move(tokens)},
          {"parent", round.tree.parents},
          {"owners", std::move(owners)},
          {"path", round.path},
          {"emitted", std::move(emitted)},
          {"budget", round.max_nodes},
          {"draft_ms", absl::ToDoubleMilliseconds(round.draft_wait)},
          {"verify_ms", absl::ToDoubleMilliseconds(round.round_trip)}};
}

OrderedJson RoundsJson(const JournalRequest& request,
                       const Tokenizer& tokenizer) {
  OrderedJson out = RequestJson(request);
  out["drafters"] = request.drafters;
  out["latest"] = OrderedJson::array();
  for (const JournalRound& round : request.rounds) {
    out["latest"].push_back(RoundJson(round, tokenizer));
  }
  return out;
}

// The latest requests, and the rounds of the chosen one.
void AddRequests(const RoundJournal& journal, const std::string& chosen,
                 const Tokenizer& tokenizer, OrderedJson& report) {
  for (const JournalRequest& request : journal.Requests()) {
    report["requests"].push_back(RequestJson(request));
  }
  if (const auto request = journal.Find(chosen)) {
    report["request"] = RoundsJson(*request, tokenizer);
  }
}

// The value of a key in "a=b&c=d"; empty: not there.
std::string QueryValue(absl::string_view query, absl::string_view key) {
  for (const auto& pair : absl::StrSplit(query, '&')) {
    const std::pair<std::string, std::string> entry =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    if (entry.first != key) continue;
    std::string value;
    for (size_t i = 0; i < entry.second.size(); ++i) {
      uint32_t code = 0;
      if (entry.second[i] == '%' && i + 2 < entry.second.size() &&
          absl::SimpleHexAtoi(entry.second.substr(i + 1, 2), &code)) {
        value.push_back(static_cast<char>(code));
        i += 2;
      } else {
        value.push_back(entry.second[i]);
      }
    }
    return value;
  }
  return "";
}

}  // namespace

StatusReport::StatusReport(Options options)
    : options_(std::move(options)), start_(absl::Now()) {
  Sample();
}

void StatusReport::Sample() {
  const MetricsSnapshot seen = options_.coordinator->Counts();
  history_.Add({.at_s = absl::ToDoubleSeconds(absl::Now() - start_),
                .generated_tokens = seen.generated_tokens,
                .emitted_tokens = seen.speculated.emitted_tokens,
                .drafts = seen.speculated.drafts,
                .failed_requests = FailedRequests(seen)});
}

std::string StatusReport::Json(absl::string_view query) const {
  const MetricsSnapshot seen = options_.coordinator->Counts();
  v1::GetServerInfoResponse peers;
  options_.describe_peers(peers);
  const bool shows_text = !options_.text_key.empty() &&
                          options_.text_key.Matches(QueryValue(query, "key"));
  const Coordinator::LoadInfo load = options_.coordinator->Load();
  OrderedJson report = {
      {"model", options_.model},
      {"version", Version()},
      {"uptime_s", absl::ToDoubleSeconds(absl::Now() - start_)},
      {"shows_text", shows_text},
      {"has_key", !options_.text_key.empty()},
      {"running", load.running},
      {"queued", load.queued},
      {"counters", Counters(seen)},
      {"latencies", LatenciesJson(seen)},
      {"requests_by_code", seen.requests},
      {"rejected", seen.rejected},
      {"history", HistoryJson(history_.Samples())},
      {"stage_seconds", seen.stage_seconds},
      {"verifier", VerifierJson(peers.verifier())},
      {"drafters", DraftersJson(peers, options_.coordinator->Drafters(), seen)},
      {"requests", OrderedJson::array()},
      {"request", nullptr}};
  if (shows_text) {
    AddRequests(options_.coordinator->journal(), QueryValue(query, "request"),
                *options_.tokenizer, report);
  }
  {
    MutexLock lock(&mutex_);
    report["http_address"] = http_address_;
    report["http_has_tls"] = http_has_tls_;
    report["open_listeners"] = open_listeners_;
  }
  return ToText(report);
}

std::optional<std::string> StatusReport::OwnRounds(
    const std::string& request_id) const {
  const auto request = options_.coordinator->journal().FindOwn(request_id);
  if (!request) return std::nullopt;
  return ToText(RoundsJson(*request, *options_.tokenizer));
}

void StatusReport::AddOpenListeners(absl::Span<const std::string> lines) {
  MutexLock lock(&mutex_);
  open_listeners_.insert(open_listeners_.end(), lines.begin(), lines.end());
}

void StatusReport::SetHttpAddress(std::string address, bool has_tls) {
  MutexLock lock(&mutex_);
  http_address_ = std::move(address);
  http_has_tls_ = has_tls;
}

}  // namespace espalier::coordinator
