// A peer with several replicas as one endpoint. What a session loses when it
// moves, it is told as by a replica that has restarted: its update does not
// fit, and it is fed again from its first token.
#ifndef ESPALIER_COORDINATOR_POOL_POOLED_ENDPOINTS_H_
#define ESPALIER_COORDINATOR_POOL_POOLED_ENDPOINTS_H_

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/speculation/endpoints.h"
#include "common/speculation/stale_base.h"
#include "coordinator/pool/link_pool.h"

namespace espalier::coordinator {

template <typename Link>
class PooledEndpoint {
 public:
  explicit PooledEndpoint(typename LinkPool<Link>::Options options)
      : name_(options.name), pool_(std::move(options)) {}

  LinkPool<Link>& pool() { return pool_; }
  const LinkPool<Link>& pool() const { return pool_; }

 protected:
  using Member = typename LinkPool<Link>::Member;

  // Runs `call` with the session's replica and a callback that settles the
  // route before it passes the answer on to `done`.
  template <typename T, typename Call>
  void Send(const SequenceUpdate& update, uint64_t key, Done<T> done,
            Call call) {
    const int64_t base = update.base_length;
    const auto route = pool_.RouteOf(update.sequence, key, base == 0);
    if (route.member == nullptr) {
      std::move(done)(route.is_stale ? StaleBaseError(0, base) : NotReady());
      return;
    }
    call(*route.member->link,
         [this, sequence = update.sequence, base, member = route.member.get(),
          done = std::move(done)](absl::StatusOr<T> reply) mutable {
           if (reply.ok()) {
             pool_.OnSuccess(sequence);
           } else if (absl::IsUnavailable(reply.status()) &&
                      pool_.OnUnavailable(sequence, member)) {
             reply = StaleBaseError(0, base);
           }
           std::move(done)(std::move(reply));
         });
  }

 private:
  absl::Status NotReady() const {
    const PeerStatus now = pool_.status();
    return absl::UnavailableError(absl::StrCat(name_, " is not connected",
                                               now.reason.empty() ? "" : ": ",
                                               now.reason));
  }

  const std::string name_;
  LinkPool<Link> pool_;
};

// Texts that begin alike go to the same replica, so that its prefix cache pays.
template <typename Link>
class PooledVerifier final : public VerifyEndpoint,
                             public PooledEndpoint<Link> {
 public:
  using PooledEndpoint<Link>::PooledEndpoint;

  void Verify(VerifyRequest request, absl::Time deadline,
              Done<VerifyResult> done) override {
    const SequenceUpdate update = {.sequence = request.update.sequence,
                                   .base_length = request.update.base_length};
    const uint64_t key =
        update.base_length > 0
            ? 0
            : TextKey(request.update.new_tokens, request.update.cache_salt);
    this->template Send<VerifyResult>(
        update, key, std::move(done),
        [&](Link& link, Done<VerifyResult> settled) {
          link.Verify(std::move(request), deadline, std::move(settled));
        });
  }
  void EndSequence(SequenceId sequence) override {
    this->pool().EndSequence(sequence);
  }

  // Returns what all its replicas can do. Features do not go through a ring if
  // there are several: a session may move to a replica on another GPU.
  std::optional<VerifierInfo> info() const {
    auto info = this->pool().Reference();
    if (!info || this->pool().size() == 1) return info;
    for (const VerifierInfo& other : this->pool().Alike()) {
      info->max_context = std::min(info->max_context, other.max_context);
      info->max_tree_nodes =
          std::min(info->max_tree_nodes, other.max_tree_nodes);
    }
    info->ring = {};
    return info;
  }
};

// A session keeps its replica, which has its state. If that is lost, the round
// lacks its tree.
template <typename Link>
class PooledDrafter final : public DraftEndpoint, public PooledEndpoint<Link> {
 public:
  using PooledEndpoint<Link>::PooledEndpoint;

  void Propose(ProposeRequest request, absl::Time deadline,
               OnPartial on_partial, Done<Proposal> done) override {
    const SequenceUpdate update = {.sequence = request.update.sequence,
                                   .base_length = request.update.base_length};
    this->template Send<Proposal>(
        update, update.sequence.number, std::move(done),
        [&](Link& link, Done<Proposal> settled) {
          link.Propose(std::move(request), deadline, std::move(on_partial),
                       std::move(settled));
        });
  }
  void EndSequence(SequenceId sequence) override {
    this->pool().EndSequence(sequence);
  }

  std::optional<DrafterInfo> info() const { return this->pool().Reference(); }
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_POOL_POOLED_ENDPOINTS_H_
