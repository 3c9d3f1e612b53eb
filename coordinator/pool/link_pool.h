#ifndef ESPALIER_COORDINATOR_POOL_LINK_POOL_H_
#define ESPALIER_COORDINATOR_POOL_LINK_POOL_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/rpc/peer_status.h"
#include "common/speculation/same_model.h"
#include "common/speculation/types.h"
#include "coordinator/pool/replica_choice.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"

namespace espalier::coordinator {

// The links to the replicas of one peer, and which of them has a session. A
// session stays with its replica. It moves if the replica is lost, drains, or
// has restarted with another model, and then to one with the model that it
// began with. Thread-safe, but for SetAddresses, which is for one thread.
//
// `Link`: RemoteVerifyEndpoint or RemoteDraftEndpoint.
template <typename Link>
class LinkPool {
 public:
  using Info =
      typename decltype(std::declval<const Link&>().info())::value_type;

  struct Options {
    std::string name;  // of the peer, in metrics and messages
    std::function<std::unique_ptr<Link>(const std::string& address)> new_link;
    // Returns what two replicas must have in common for a session to move
    // between them.
    std::function<ModelIdentity(const Info&)> model_of;
    prometheus::Registry* registry = nullptr;
  };
  explicit LinkPool(Options options)
      : options_(std::move(options)),
        sessions_of_(prometheus::BuildGauge()
                         .Name("espalier_link_sessions")
                         .Help("Sessions that a replica of a peer has.")
                         .Register(*options_.registry)),
        moves_(prometheus::BuildCounter()
                   .Name("espalier_link_moves_total")
                   .Help("Sessions that went from one replica to another.")
                   .Register(*options_.registry)
                   .Add({{"peer", options_.name}})) {}

  // Blocks until the links' callbacks are done, so not on a gRPC thread.
  ~LinkPool() {
    std::vector<MemberPtr> all;
    MutexLock lock(&mutex_);
    all = std::move(members_);
    all.insert(all.end(), retired_.begin(), retired_.end());
    retired_.clear();
    sessions_.clear();
  }

  // Links to these addresses. One that is not among them any more stays as long
  // as it is connected: a resolver may lag behind, or leave some out.
  void SetAddresses(const std::vector<std::string>& addresses) {
    std::vector<MemberPtr> now;
    for (const std::string& address : addresses) {
      MemberPtr member = Find(address);
      now.push_back(member ? member : NewMember(address));
    }
    // Destroyed without the lock, which their callbacks need.
    std::vector<MemberPtr> gone;
    MutexLock lock(&mutex_);
    for (MemberPtr& member : members_) {
      const bool listed = std::count(now.begin(), now.end(), member) > 0;
      if (listed) continue;
      const bool ready = member->link->status().state == PeerState::kReady;
      (ready ? now : retired_).push_back(std::move(member));
    }
    members_ = std::move(now);
    // A link that a caller still uses is kept until the next time.
    std::erase_if(retired_, [&](MemberPtr& member) {
      if (member.use_count() > 1) return false;
      sessions_of_.Remove(member->gauge);
      gone.push_back(std::move(member));
      return true;
    });
  }

  struct Member {
    std::string address;
    uint64_t key = 0;  // ReplicaKey
    std::unique_ptr<Link> link;
    int64_t sessions = 0;  // guarded by the pool's mutex
    prometheus::Gauge* gauge = nullptr;
  };
  using MemberPtr = std::shared_ptr<Member>;

  struct Route {
    MemberPtr member = {};  // null: see below
    // The session has to begin anew, with an update that `opens` it; or no
    // replica with its model is left, which its owner finds out from Reference.
    // False and no member: nothing is connected.
    bool is_stale = false;
  };
  // Where the next request of a session goes. `opens`: it has the whole text.
  // `key`: of the text, or of the session.
  Route RouteOf(SequenceId sequence, uint64_t key, bool opens) {
    MemberPtr left;
    Route route;
    {
      MutexLock lock(&mutex_);
      route = RouteLocked(sessions_[sequence], key, opens, left);
    }
    // It may only drain.
    if (left) left->link->EndSequence(sequence);
    return route;
  }

  // A request failed as UNAVAILABLE: the session leaves the replica. True: the
  // caller should begin the session anew elsewhere, now.
  bool OnUnavailable(SequenceId sequence, const Member* failed) {
    MemberPtr left;
    bool is_next;
    {
      MutexLock lock(&mutex_);
      const auto found = sessions_.find(sequence);
      if (found == sessions_.end() || found->second.member.get() != failed) {
        return false;
      }
      Session& session = found->second;
      left = session.avoided = session.member;
      Leave(session);
      // Each replica once, then the caller's own pause.
      is_next = ++session.failures < std::ssize(members_) &&
                !Candidates(session).empty();
    }
    left->link->EndSequence(sequence);
    return is_next;
  }
  void OnSuccess(SequenceId sequence) {
    MutexLock lock(&mutex_);
    const auto found = sessions_.find(sequence);
    if (found == sessions_.end()) return;
    found->second.failures = 0;
    found->second.avoided.reset();
  }

  void EndSequence(SequenceId sequence) {
    MemberPtr member;
    {
      MutexLock lock(&mutex_);
      const auto found = sessions_.find(sequence);
      if (found == sessions_.end()) return;
      member = found->second.member;
      Leave(found->second);
      sessions_.erase(found);
    }
    if (member) member->link->EndSequence(sequence);
  }

  // The info of a connected replica of the model that most of them have, or
  // what was last known of any; nullopt: none was ever connected.
  std::optional<Info> Reference() const {
    MutexLock lock(&mutex_);
    if (auto info = ReferenceLocked()) return info;
    for (const MemberPtr& member : members_) {
      if (auto info = member->link->info()) return info;
    }
    return std::nullopt;
  }

  // The infos of the connected replicas of the Reference's model.
  std::vector<Info> Alike() const {
    MutexLock lock(&mutex_);
    std::vector<Info> infos;
    const auto reference = ReferenceLocked();
    for (const MemberPtr& member : members_) {
      auto info = ReadyInfo(*member);
      if (info &&
          SameModel(options_.model_of(*info), options_.model_of(*reference))) {
        infos.push_back(*std::move(info));
      }
    }
    return infos;
  }

  int64_t size() const {
    MutexLock lock(&mutex_);
    return std::ssize(members_);
  }

  // Ready if any link is.
  PeerStatus status() const {
    MutexLock lock(&mutex_);
    PeerStatus first = {.reason = "its name has no address"};
    for (auto member = members_.rbegin(); member != members_.rend(); ++member) {
      PeerStatus status = (*member)->link->status();
      if (status.state == PeerState::kReady) return {.state = status.state};
      first = std::move(status);
    }
    return first;
  }

  // Blocks until it is in `state`; false if the deadline comes first.
  bool AwaitState(PeerState state, absl::Time deadline) const {
    if (const MemberPtr only = OnlyMember()) {
      return only->link->AwaitState(state, deadline);
    }
    constexpr absl::Duration kLook = absl::Milliseconds(50);
    while (status().state != state) {
      const absl::Time now = absl::Now();
      if (now >= deadline) return false;
      absl::SleepFor(std::min(kLook, deadline - now));
    }
    return true;
  }

  struct LinkState {
    std::string address;
    PeerStatus status;
    std::optional<Info> info;
    int64_t sessions = 0;
  };
  std::vector<LinkState> Links() const {
    MutexLock lock(&mutex_);
    std::vector<LinkState> states;
    for (const MemberPtr& member : members_) {
      states.push_back({.address = member->address,
                        .status = member->link->status(),
                        .info = member->link->info(),
                        .sessions = member->sessions});
    }
    return states;
  }

 private:
  struct Session {
    MemberPtr member = {};                    // null: it has none
    std::optional<ModelIdentity> model = {};  // that it began with
    uint64_t last = 0;       // key of the last member; 0: there was none
    MemberPtr avoided = {};  // the replica that has failed
    int64_t failures = 0;    // since the last success
  };

  MemberPtr OnlyMember() const {
    MutexLock lock(&mutex_);
    return members_.size() == 1 ? members_.front() : nullptr;
  }

  MemberPtr Find(const std::string& address) const {
    MutexLock lock(&mutex_);
    for (const MemberPtr& member : members_) {
      if (member->address == address) return member;
    }
    return nullptr;
  }

  MemberPtr NewMember(const std::string& address) {
    auto member = std::make_shared<Member>();
    member->address = address;
    member->key = ReplicaKey(address);
    member->link = options_.new_link(address);
    member->gauge =
        &sessions_of_.Add({{"peer", options_.name}, {"address", address}});
    return member;
  }

  static std::optional<Info> ReadyInfo(const Member& member) {
    if (member.link->status().state != PeerState::kReady) return std::nullopt;
    return member.link->info();
  }

  std::optional<Info> ReferenceLocked() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<Info> ready;
    for (const MemberPtr& member : members_) {
      if (auto info = ReadyInfo(*member)) ready.push_back(*std::move(info));
    }
    const auto alike = [&](const Info& info) {
      return std::count_if(ready.begin(), ready.end(), [&](const Info& other) {
        return SameModel(options_.model_of(info), options_.model_of(other));
      });
    };
    const auto most = std::max_element(
        ready.begin(), ready.end(),
        [&](const Info& a, const Info& b) { return alike(a) < alike(b); });
    if (most == ready.end()) return std::nullopt;
    return *most;
  }

  bool Continues(const Session& session, const Member& member) const {
    const auto info = ReadyInfo(member);
    return info && (!session.model ||
                    SameModel(options_.model_of(*info), *session.model));
  }

  // The replicas that can have the session; those that drain or have failed
  // only if there are no others.
  std::vector<MemberPtr> Candidates(const Session& session) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<MemberPtr> good;
    std::vector<MemberPtr> poor;
    for (const MemberPtr& member : members_) {
      if (!Continues(session, *member)) continue;
      const bool is_poor =
          member == session.avoided || member->link->status().draining;
      (is_poor ? poor : good).push_back(member);
    }
    return good.empty() ? poor : good;
  }

  Route RouteLocked(Session& session, uint64_t key, bool opens, MemberPtr& left)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (session.member && Continues(session, *session.member) &&
        !session.member->link->status().draining) {
      return {.member = session.member};
    }
    if (!session.model) {
      const auto reference = ReferenceLocked();
      if (!reference) return {};
      session.model = options_.model_of(*reference);
    }
    const std::vector<MemberPtr> candidates = Candidates(session);
    if (candidates.empty()) return {.is_stale = ReferenceLocked().has_value()};
    const bool stays =
        std::count(candidates.begin(), candidates.end(), session.member) > 0;
    if (stays) return {.member = session.member};
    left = session.member;
    Leave(session);
    if (!opens) return {.is_stale = true};
    Enter(session, candidates, key);
    return {.member = session.member};
  }

  void Enter(Session& session, const std::vector<MemberPtr>& candidates,
             uint64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<Replica> replicas;
    for (const MemberPtr& member : candidates) {
      replicas.push_back({.key = member->key, .load = member->sessions});
    }
    session.member = candidates[ChooseReplica(key, replicas)];
    const uint64_t before = std::exchange(session.last, session.member->key);
    if (before != 0 && before != session.last) moves_.Increment();
    session.member->gauge->Set(static_cast<double>(++session.member->sessions));
  }

  void Leave(Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!session.member) return;
    session.member->gauge->Set(static_cast<double>(--session.member->sessions));
    session.member.reset();
  }

  const Options options_;
  prometheus::Family<prometheus::Gauge>& sessions_of_;
  prometheus::Counter& moves_;

  mutable Mutex mutex_;
  absl::flat_hash_map<SequenceId, Session> sessions_ ABSL_GUARDED_BY(mutex_);
  std::vector<MemberPtr> members_ ABSL_GUARDED_BY(mutex_);
  std::vector<MemberPtr> retired_ ABSL_GUARDED_BY(mutex_);  // still used
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_POOL_LINK_POOL_H_
