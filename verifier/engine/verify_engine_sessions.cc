#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"
#include "common/spec/request_errors.h"
#include "common/spec/stale_base.h"
#include "verifier/engine/verify_engine.h"
#include "verifier/rules/verification_rules.h"

// The sessions of the engine: from an arriving request to its answer.

namespace espalier::verifier {
namespace {

std::string RuleName(const VerifyRequest& request) {
  return request.rule == "auto" ? kDefaultRule : request.rule;
}

// Keeps the first `size` nodes, which are a valid tree. The distributions are
// valid only for the whole tree, and whether they are kept must not depend on
// how many draws gave the same token; so the number of samples decides.
// REQUIRES: size >= 1.
void CutTree(TokenTree& tree, int64_t size) {
  if (std::ssize(tree.samples) >= size) tree.DropDistributions();
  if (tree.num_nodes() <= size) return;
  tree.tokens.resize(size);
  tree.parents.resize(size);
  tree.log_probs.resize(size);
  if (!tree.provenance.empty()) tree.provenance.resize(size);
}

}  // namespace

// Cheap, so that all requests that have arrived are admitted before the next
// pass, and an EndSequence right after its Verify saves that pass.
void VerifyEngine::Admit(std::unique_ptr<Job> job) {
  last_request_ = executor_->Now();
  PostMeasurement(kRest);
  const SequenceUpdate& update = job->request.update;
  const SequenceId id = update.sequence;
  auto found = sessions_.find(id);
  Session* session = found == sessions_.end() ? nullptr : found->second.get();
  if (session != nullptr && Repeat(*job, *session)) return;
  if (absl::Status status = CheckAdmission(*job, session); !status.ok()) {
    std::move(job->done)(std::move(status));
    return;
  }
  if (job->request.adjustments.grammar.any() && !job->masked) {
    AskForMasks(std::move(job), session);
    return;
  }
  if (session == nullptr) {
    if (absl::Status room = MakeRoom(id.coordinator_epoch); !room.ok()) {
      std::move(job->done)(std::move(room));
      return;
    }
    session =
        sessions_.emplace(id, std::make_unique<Session>()).first->second.get();
    session->delay = absl::Seconds(job->request.priority);
    session->age = NextPlace(session->delay);
    session->cache = model_->NewSequence();
    session->salt = update.cache_salt;
    if (!update.traceparent.empty()) {
      LogInfo(absl::StrCat("traceparent ", update.traceparent, " sequence ",
                           id.number, " of ", update.committed_length(),
                           " tokens"));
    }
    UpdateGauges();
  }
  Answer(*session, absl::CancelledError("the sequence was asked for again"));
  session->asked = job->request;
  if (session->answered != absl::InfinitePast()) {
    session->return_time.Observe(job->waiting_since - session->answered);
    session->answered = absl::InfinitePast();
  }
  if (job->masked) job->request.tree = std::move(job->masked->tree);
  ApplyUpdate(job->request, *session);
  // Near the end of the context, the last nodes of the tree may not fit.
  CutTree(job->request.tree,
          info_.max_context + 1 - static_cast<int64_t>(session->tokens.size()));
  ChooseRule(*job);
  ChooseComparison(*job);
  session->job = std::move(job);
  session->job->turn = NextPlace(session->delay);
  PostTurn();
}

bool VerifyEngine::Repeat(Job& job, Session& session) {
  const bool same = AskTheSame(session.asked, job.request);
  const uint64_t round = job.request.update.round;
  if (session.last_verify_result &&
      session.last_verify_result->round == round) {
    if (same) {
      std::move(job.done)(*session.last_verify_result);
    } else {
      std::move(job.done)(absl::InvalidArgumentError(absl::StrCat(
          "round ", round, " was answered for another text or tree")));
    }
    return true;
  }
  if (session.job == nullptr || !same ||
      session.job->request.update.round != round) {
    return false;
  }
  std::swap(session.job->done, job.done);
  session.job->deadline = job.deadline;
  std::move(job.done)(absl::CancelledError("the sequence was asked for again"));
  return true;
}

absl::Status VerifyEngine::CheckAdmission(const Job& job,
                                          const Session* session) const {
  if (stopping_) return absl::UnavailableError("the verifier is stopping");
  RETURN_IF_ERROR(lost_);
  const SequenceUpdate& update = job.request.update;
  RETURN_IF_ERROR(CheckVerifyRequest(job.request, limits_));
  const GrammarSpec& grammar = job.request.adjustments.grammar;
  if (grammar.any() && options_.grammars == nullptr) {
    return FieldError(FieldOf(grammar.kind),
                      "the verifier has no structured output");
  }
  if (!rules_.contains(RuleName(job.request))) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown rule \"", job.request.rule, "\"; known: auto, ",
                     absl::StrJoin(info_.rules, ", ")));
  }
  absl::Span<const TokenId> held;
  if (session != nullptr) held = session->tokens;
  RETURN_IF_ERROR(CheckBase(held, update));
  RETURN_IF_ERROR(CheckRoot(held, job.request));
  if (session == nullptr) return absl::OkStatus();
  if (session->last_verify_result &&
      update.round < session->last_verify_result->round) {
    return absl::InvalidArgumentError(
        absl::StrCat("round ", update.round, " is over: round ",
                     session->last_verify_result->round, " was answered"));
  }
  return absl::OkStatus();
}

// When all sessions are open, the coordinator with the most sessions loses one
// to a coordinator with fewer: its least recently used session without a
// request. So no coordinator can occupy all of them. The coordinator sends the
// lost session's tokens again.
absl::Status VerifyEngine::MakeRoom(uint64_t epoch) {
  if (static_cast<int64_t>(sessions_.size()) < options_.max_sessions) {
    return absl::OkStatus();
  }
  absl::flat_hash_map<uint64_t, int64_t> held;  // sessions by epoch
  for (const auto& [id, session] : sessions_) ++held[id.coordinator_epoch];
  const int64_t own = held[epoch];
  const auto most = std::max_element(
      held.begin(), held.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  std::optional<SequenceId> oldest;
  absl::Time oldest_use = absl::InfiniteFuture();
  for (const auto& [id, session] : sessions_) {
    if (id.coordinator_epoch == most->first && session->job == nullptr &&
        session->last_used < oldest_use) {
      oldest = id;
      oldest_use = session->last_used;
    }
  }
  if (most->second <= own + 1 || !oldest) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "all ", options_.max_sessions, " sessions of the verifier are open"));
  }
  Drop(*oldest, absl::CancelledError("others need the room"));
  return absl::OkStatus();
}

// The requested rule, or the default rule if that does not support this
// request. Decided before anything is computed or sampled.
void VerifyEngine::ChooseRule(Job& job) const {
  job.rule = &*rules_.find(RuleName(job.request));
  VerificationRule& rule = *job.rule->second;
  const bool greedy = job.request.update.sampling.greedy();
  job.unsupported = greedy && rule.needs().sampling
                        ? "greedy"
                        : rule.UnsupportedReason(job.request.tree);
  if (!job.unsupported.empty()) job.rule = &*rules_.find(kDefaultRule);
}

// Selects rounds at a fixed rate, independently of what was sampled in them.
void VerifyEngine::ChooseComparison(Job& job) {
  if (job.request.update.sampling.greedy() ||
      !job.request.tree.claims_distributions()) {
    return;
  }
  comparisons_due_ += options_.compared_rounds;
  job.compared = comparisons_due_ >= 1;
  if (job.compared) comparisons_due_ -= 1;
}

// Keeps the K/V of all unchanged tokens except the root.
void VerifyEngine::ApplyUpdate(const VerifyRequest& request, Session& session) {
  std::vector<TokenId>& tokens = session.tokens;
  const std::vector<TokenId>& added = request.update.new_tokens;
  const auto replaced = tokens.begin() + request.update.base_length;
  const int64_t same =
      std::mismatch(replaced, tokens.end(), added.begin(), added.end()).first -
      tokens.begin();
  tokens.erase(replaced, tokens.end());
  tokens.insert(tokens.end(), added.begin(), added.end());
  const int64_t before_root = static_cast<int64_t>(tokens.size()) - 1;
  const int64_t keep = std::min(same, before_root);
  if (model_->Length(session.cache) > keep) {
    model_->Truncate(session.cache, keep);
  }
  session.max_length = request.max_length > 0
                           ? std::min(request.max_length, info_.max_context)
                           : info_.max_context;
  WantPromptLogprobs(request.logprobs, session);
  WantFeatures(request.features, session);
  session.last_used = executor_->Now();
}

// They need the logits of every position, so none may be cached whose
// log-probabilities are not.
void VerifyEngine::WantPromptLogprobs(const LogprobRequest& wanted,
                                      Session& session) {
  session.prompt_logprobs = {};
  if (!wanted.prompt) return;
  session.prompt_logprobs.top = static_cast<int32_t>(
      std::min<int64_t>(*wanted.prompt, info_.model.vocab_size));
  session.prompt_logprobs = logprob_cache_.Find(session.tokens, session.salt,
                                                session.prompt_logprobs.top);
  const int64_t known = session.prompt_logprobs.size();
  if (model_->Length(session.cache) > known) {
    model_->Truncate(session.cache, known);
  }
}

// Continues the features that earlier requests have collected and not returned.
void VerifyEngine::WantFeatures(const FeatureRequest& wanted,
                                Session& session) {
  session.wanted = wanted;
  // The coordinator may take this verifier for one that was here before it.
  if (model_->info().feature_ring.id == 0) session.wanted.store.clear();
  std::vector<StoredContract> stored(session.wanted.store.size());
  std::set<int32_t> points(wanted.taps.begin(), wanted.taps.end());
  for (size_t i = 0; i < stored.size(); ++i) {
    stored[i].taps = session.wanted.store[i];
    points.insert(stored[i].taps.begin(), stored[i].taps.end());
    if (i < session.stored.size() && session.stored[i].taps == stored[i].taps) {
      stored[i].segments = std::move(session.stored[i].segments);
    }
  }
  session.stored = std::move(stored);
  const std::vector<int32_t> taps(points.begin(), points.end());
  const bool are_others = taps != session.taps;
  const int64_t cached = model_->Length(session.cache);
  FeatureRows& rows = session.features;
  rows.CutFrom(cached);
  session.open_block.CutFrom(cached);
  if (are_others) session.open_block = {};
  if (rows.empty() || rows.end_position() != cached || are_others) {
    // The ring gets all that it can.
    const int64_t first = session.stored.empty() ? wanted.first_position : 0;
    rows = {.first_position = std::max(cached, first),
            .width = std::ssize(taps) * info_.shape.hidden_size};
  }
  session.taps = taps;
}

// Returns whether features come to the host: to return them, or for sessions
// that share the text. Others stay on the device.
bool VerifyEngine::CollectsFeatures(const Session& session) const {
  return !session.wanted.taps.empty() ||
         (shares_prefixes_ && !session.taps.empty());
}

// Takes the collected features, in the form in which they are returned.
FeatureRows VerifyEngine::TakeFeatures(Session& session) const {
  FeatureRows all = std::exchange(session.features, {});
  all.CutBefore(session.wanted.first_position);
  if (session.wanted.taps == session.taps || all.empty()) return all;
  const int64_t hidden = info_.shape.hidden_size;
  FeatureRows rows = {.first_position = all.first_position,
                      .width = std::ssize(session.wanted.taps) * hidden};
  AppendTaps(all.data, session.taps, session.wanted.taps, hidden, rows.data);
  return rows;
}

StoredSegments VerifyEngine::TakeStored(Session& session) const {
  StoredSegments taken;
  if (session.stored.empty()) return taken;
  taken.ring_id = info_.ring.id;
  for (StoredContract& contract : session.stored) {
    taken.contracts.push_back(std::exchange(contract.segments, {}));
  }
  return taken;
}

// Answers the session's request, if there is one.
void VerifyEngine::Answer(Session& session,
                          absl::StatusOr<VerifyResult> verify_result) {
  const std::unique_ptr<Job> job = std::move(session.job);
  if (job != nullptr) std::move(job->done)(std::move(verify_result));
}

void VerifyEngine::Drop(SequenceId id, const absl::Status& reason) {
  if (options_.grammars) options_.grammars->Forget(id);
  masking_.erase(id);
  auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  Answer(*found->second, reason);
  Share(*found->second);
  model_->Release(found->second->cache);
  sessions_.erase(found);
  PostTurn();  // others may be waiting for its room
  UpdateGauges();
}

void VerifyEngine::DropIdleSessions() {
  const absl::Time now = executor_->Now();
  device_memory_ = model_->device_memory();
  if (device_memory_.total_bytes > 0) {
    metrics_.device_memory_ratio.Set(
        static_cast<double>(device_memory_.used_bytes) /
        static_cast<double>(device_memory_.total_bytes));
  }
  std::vector<SequenceId> idle;
  for (const auto& [id, session] : sessions_) {
    if (session->job == nullptr &&
        now - session->last_used >= options_.session_ttl) {
      idle.push_back(id);
    }
  }
  for (SequenceId id : idle) Drop(id, absl::CancelledError("idle"));
  executor_->PostAt(now + options_.session_ttl / 2,
                    [this] { DropIdleSessions(); });
}

}  // namespace espalier::verifier
