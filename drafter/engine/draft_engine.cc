#include "drafter/engine/draft_engine.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"
#include "common/speculation/request_errors.h"

namespace espalier::drafter {
namespace {

// Features must fit the contract and end before the root, which has none yet.
absl::Status CheckFeatures(const ProposeRequest& request,
                           const FeatureContract& contract) {
  const FeatureRows& rows = request.features;
  if (rows.empty()) return absl::OkStatus();
  if (rows.width == contract.width() && rows.first_position >= 0 &&
      rows.end_position() < request.update.committed_length()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "features: ", rows.width, " numbers at positions ", rows.first_position,
      " .. ", rows.end_position() - 1, ", the drafter wants ", contract.width(),
      ", the root is at ", request.update.committed_length() - 1));
}

absl::Status CheckStored(const ProposeRequest& request) {
  const std::vector<RingSegment>& segments = request.stored.segments;
  if (segments.empty() ||
      (AreConsecutive(segments) &&
       request.stored.end_position() < request.update.committed_length())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("stored_features.segments: ", segments.size(),
                   " to position ", request.stored.end_position(),
                   " do not follow each other to the root at ",
                   request.update.committed_length() - 1));
}

absl::Status CheckLookahead(absl::Span<const TokenId> lookahead,
                            int64_t vocab_size, int64_t longest) {
  if (static_cast<int64_t>(lookahead.size()) > longest) {
    return absl::InvalidArgumentError(
        absl::StrCat("lookahead_tokens: ", lookahead.size(),
                     ", the drafter takes ", longest));
  }
  return CheckTokens("lookahead_tokens", lookahead, vocab_size);
}

absl::Status CheckRequest(const ProposeRequest& request, int64_t vocab_size) {
  RETURN_IF_ERROR(
      CheckTokens("new_tokens", request.update.new_tokens, vocab_size));
  const float temperature = request.update.sampling.temperature;
  if (!(temperature >= 0 && temperature <= 100)) {  // NaN fails too
    return absl::InvalidArgumentError(absl::StrCat(
        "sampling.temperature ", temperature, " is not from 0 to 100"));
  }
  if (request.budget.max_nodes < 0 || request.budget.max_depth < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "budget: max_nodes ", request.budget.max_nodes, " and max_depth ",
        request.budget.max_depth, " must not be negative"));
  }
  const float reach = request.budget.least_reach;
  if (!(reach >= 0 && reach <= 1)) {  // NaN fails too
    return absl::InvalidArgumentError(
        absl::StrCat("budget: least_reach ", reach, " is not from 0 to 1"));
  }
  return CheckRanks("ranks", request.ranks, vocab_size);
}

Proposal AnswerTo(const ProposeRequest& request, TokenTree tree,
                  absl::Duration compute_time) {
  return {.round = request.update.round,
          .committed_length = request.update.committed_length(),
          .tree = std::move(tree),
          .compute_time = compute_time};
}

}  // namespace

DraftEngine::DraftEngine(Options options, std::unique_ptr<Drafter> drafter,
                         std::unique_ptr<Executor> executor,
                         const DrafterMetrics& metrics)
    : options_(std::move(options)),
      drafter_(std::move(drafter)),
      features_(WantedFeatures(*drafter_)),
      is_quick_(drafter_->is_quick()),
      metrics_(metrics),
      store_(
          options_.store, [this](SequenceId id) { drafter_->Forget(id); },
          drafter_->features()),
      executor_(*executor),
      executor_owner_(std::move(executor)) {
  executor_.PostAt(executor_.Now() + options_.store.max_idle,
                   [this] { SweepIdle(); });
}

DraftEngine::~DraftEngine() {
  executor_owner_.reset();  // no task of ours runs after this
  std::vector<Work> left;
  {
    MutexLock lock(&mutex_);
    left.swap(queue_);
  }
  for (Work& work : left) {
    std::move(work.done)(absl::UnavailableError("the drafter is stopping"));
  }
  metrics_.sessions_open.Set(0);
}

void DraftEngine::Propose(ProposeRequest request, absl::Time deadline,
                          OnPartial on_partial, Done<Proposal> done) {
  const bool here = IsQuick(request) && !GoesElsewhere();
  Work work = {std::move(request), deadline, std::move(on_partial),
               std::move(done)};
  std::vector<Work> superseded;
  Done<Proposal> refused;
  bool is_first = false;
  {
    MutexLock lock(&mutex_);
    superseded = TakeOut([&](const Work& waiting) {
      return waiting.is_lookahead() &&
             waiting.request.update.sequence == work.request.update.sequence;
    });
    // The store could not hold more sequences at once.
    if (std::ssize(queue_) < options_.store.max_sequences) {
      queue_.push_back(std::move(work));
      is_first = queue_.size() == 1;
    } else {
      refused = std::move(work.done);
    }
  }
  for (Work& lookahead : superseded) {
    std::move(lookahead.done)(
        absl::CancelledError("the sequence has moved on"));
  }
  if (refused != nullptr) {
    std::move(refused)(absl::ResourceExhaustedError(
        absl::StrCat("drafter ", options_.name, ": ",
                     options_.store.max_sequences, " requests are waiting")));
  }
  if (!is_first) return;
  if (here) {
    executor_.Dispatch([this] { DraftBatch(); });
  } else {
    executor_.Post([this] { DraftBatch(); });
  }
}

bool DraftEngine::IsQuick(const ProposeRequest& request) const {
  constexpr int64_t kTokensPerRow = 8;  // that take as long as a row of ranks
  return is_quick_ && std::ssize(request.update.new_tokens) +
                              kTokensPerRow * request.ranks.size() <=
                          options_.max_quick_tokens;
}

// Counts the request.
bool DraftEngine::GoesElsewhere() {
  return elsewhere_ > 0 && elsewhere_.fetch_sub(1) > 0;
}

void DraftEngine::NoteTime(absl::Span<const Work> batch,
                           absl::Duration compute_time) {
  const bool is_quick =
      std::all_of(batch.begin(), batch.end(),
                  [&](const Work& work) { return IsQuick(work.request); });
  if (!is_quick) return;
  if (compute_time <= options_.quick_time * std::ssize(batch)) {
    penalty_ /= 2;
    if (elsewhere_ > penalty_) elsewhere_ = penalty_;
  } else {
    penalty_ = std::clamp(2 * penalty_, kFewElsewhere, kMaxElsewhere);
    elsewhere_ = penalty_;
  }
}

void DraftEngine::EndSequence(SequenceId sequence) {
  std::vector<Work> dropped;
  {
    MutexLock lock(&mutex_);
    dropped = TakeOut([&](const Work& work) {
      return work.request.update.sequence == sequence;
    });
  }
  for (Work& work : dropped) {
    std::move(work.done)(absl::CancelledError("the sequence was ended"));
  }
  executor_.Post([this, sequence] {
    store_.End(sequence);
    metrics_.sessions_open.Set(static_cast<double>(store_.num_sequences()));
  });
}

std::vector<DraftEngine::Work> DraftEngine::TakeOut(
    std::function<bool(const Work&)> is_out) {
  const auto out =
      std::stable_partition(queue_.begin(), queue_.end(), std::not_fn(is_out));
  std::vector<Work> taken(std::make_move_iterator(out),
                          std::make_move_iterator(queue_.end()));
  queue_.erase(out, queue_.end());
  return taken;
}

// Takes all waiting requests, up to the second one of a sequence; lookaheads
// only if there is nothing else.
std::vector<DraftEngine::Work> DraftEngine::TakeBatch() {
  MutexLock lock(&mutex_);
  const auto lookaheads = std::stable_partition(
      queue_.begin(), queue_.end(),
      [](const Work& work) { return !work.is_lookahead(); });
  absl::flat_hash_set<SequenceId> seen;
  const auto end = std::find_if(
      queue_.begin(), lookaheads == queue_.begin() ? queue_.end() : lookaheads,
      [&](const Work& work) {
        return !seen.insert(work.request.update.sequence).second;
      });
  std::vector<Work> batch(std::make_move_iterator(queue_.begin()),
                          std::make_move_iterator(end));
  queue_.erase(queue_.begin(), end);
  if (!queue_.empty()) executor_.Post([this] { DraftBatch(); });
  return batch;
}

void DraftEngine::DraftBatch() {
  std::vector<Work> admitted;
  for (Work& work : TakeBatch()) {
    absl::Status status = Admit(work);
    if (status.ok()) {
      admitted.push_back(std::move(work));
    } else {
      std::move(work.done)(std::move(status));
    }
  }
  // A later update of the batch may have pushed out an earlier one.
  std::vector<Work> held;
  for (Work& work : admitted) {
    if (store_.Find(work.request.update.sequence) != nullptr) {
      held.push_back(std::move(work));
    } else {
      std::move(work.done)(absl::ResourceExhaustedError(absl::StrCat(
          "drafter ", options_.name, ": more sequences than it can hold")));
    }
  }
  metrics_.sessions_open.Set(static_cast<double>(store_.num_sequences()));
  if (!held.empty()) DraftAndAnswer(std::move(held));
}

absl::Status DraftEngine::Admit(Work& work) {
  const ProposeRequest& request = work.request;
  RETURN_IF_ERROR(CheckRequest(request, options_.vocab_size));
  RETURN_IF_ERROR(
      CheckLookahead(request.lookahead, options_.vocab_size,
                     options_.supports_lookahead ? options_.max_depth : 0));
  RETURN_IF_ERROR(CheckFeatures(request, features_));
  RETURN_IF_ERROR(CheckStored(request));
  RETURN_IF_ERROR(store_.Apply(request.update, executor_.Now()));
  store_.AddFeatures(request.update.sequence, request.features);
  if (!request.stored.empty()) TakeStored(work);
  return absl::OkStatus();
}

void DraftEngine::TakeStored(Work& work) {
  const SequenceId id = work.request.update.sequence;
  const StoredFeatures& stored = work.request.stored;
  if (!features_.taps.empty()) {
    const absl::Status added = store_.AddStored(id, stored);
    work.ring_unreadable = !added.ok();
    if (!added.ok() &&
        std::exchange(unreadable_ring_, stored.ring.id) != stored.ring.id) {
      LogWarning(absl::StrCat("drafter ", options_.name,
                              " gets features over gRPC: ", added.message()));
    }
  }
  work.lacks_features = store_.FeaturesOf(id).end < stored.end_position();
}

void DraftEngine::DraftAndAnswer(std::vector<Work> batch) {
  const absl::Time start = executor_.Now();
  std::vector<SequenceView> views;
  for (Work& work : batch) views.push_back(ViewOf(work, start));
  absl::StatusOr<std::vector<TokenTree>> trees = Draft(views);
  const absl::Duration compute_time = executor_.Now() - start;
  metrics_.compute_seconds.Observe(absl::ToDoubleSeconds(compute_time));
  NoteTime(batch, compute_time);
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!trees.ok()) {
      std::move(batch[i].done)(trees.status());
      continue;
    }
    TokenTree& tree = (*trees)[i];
    metrics_.proposed_nodes.Increment(
        static_cast<double>(tree.num_nodes() - 1));
    Proposal answer = AnswerTo(batch[i].request, std::move(tree), compute_time);
    answer.lacks_features = batch[i].lacks_features;
    answer.ring_unreadable = batch[i].ring_unreadable;
    answer.level_times = std::move(batch[i].level_times);
    std::move(batch[i].done)(std::move(answer));
  }
}

// Valid as long as `work` stays where it is.
SequenceView DraftEngine::ViewOf(Work& work, absl::Time start) {
  const SequenceUpdate& update = work.request.update;
  const DraftBudget& wanted = work.request.budget;
  SequenceView view = {
      .id = update.sequence,
      .tokens = *store_.Find(update.sequence),
      .lookahead = work.request.lookahead,
      .sampling = update.sampling,
      .grammar = work.request.grammar,
      .prompt_length = work.request.prompt_length,
      .budget =
          wanted
              .WithNodes(work.deadline <= start
                             ? 0
                             : std::min(wanted.max_nodes, options_.max_nodes))
              .WithDepth(std::min(wanted.max_depth, options_.max_depth)),
      .features = store_.FeaturesOf(update.sequence),
      .cache_salt = store_.SaltOf(update.sequence)};
  view.level_done = [this, &work, last = start]() mutable {
    const absl::Time now = executor_.Now();
    work.level_times.push_back(now - std::exchange(last, now));
  };
  if (!work.request.ranks.empty()) view.ranks = &work.request.ranks;
  if (work.on_partial) {
    view.report = [this, &work, start](TokenTree tree) {
      const absl::Duration taken = executor_.Now() - start;
      if (taken < options_.report_after) return;
      work.on_partial(AnswerTo(work.request, std::move(tree), taken));
    };
  }
  return view;
}

// A request is not to blame for the drafter's errors, so they become INTERNAL.
absl::StatusOr<std::vector<TokenTree>> DraftEngine::Draft(
    absl::Span<const SequenceView> views) {
  absl::StatusOr<std::vector<TokenTree>> trees = CallDrafter(views);
  if (absl::IsUnavailable(trees.status()) && options_.on_device_lost &&
      !std::exchange(is_lost_, true)) {
    options_.on_device_lost(trees.status());
  }
  if (!trees.ok()) {
    return absl::InternalError(absl::StrCat("drafter ", options_.name, ": ",
                                            trees.status().ToString()));
  }
  if (trees->size() != views.size()) {
    return absl::InternalError(
        absl::StrCat("drafter ", options_.name, ": answered ", trees->size(),
                     " trees for ", views.size(), " sequences"));
  }
  return trees;
}

// A drafter that throws may have half of an update, so its sequences begin
// anew.
absl::StatusOr<std::vector<TokenTree>> DraftEngine::CallDrafter(
    absl::Span<const SequenceView> views) {
  absl::Status thrown;
  try {
    return drafter_->Draft(views);
  } catch (const std::exception& exception) {
    thrown = absl::InternalError(exception.what());
  } catch (...) {
    thrown = absl::InternalError("an unknown exception");
  }
  std::vector<SequenceId> ids;
  for (const SequenceView& view : views) ids.push_back(view.id);
  for (SequenceId id : ids) store_.End(id);
  return thrown;
}

void DraftEngine::SweepIdle() {
  store_.DropIdle(executor_.Now());
  metrics_.sessions_open.Set(static_cast<double>(store_.num_sequences()));
  executor_.PostAt(executor_.Now() + options_.store.max_idle / 2,
                   [this] { SweepIdle(); });
}

}  // namespace espalier::drafter
