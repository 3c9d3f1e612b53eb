// Traits of the two multiplexed streams, so that ServerStreams and PeerLink are
// written once.
#ifndef ESPALIER_COMMON_RPC_WIRE_H_
#define ESPALIER_COMMON_RPC_WIRE_H_

#include "absl/status/statusor.h"
#include "common/rpc/convert.h"
#include "espalier/v1/drafter.pb.h"
#include "espalier/v1/verifier.pb.h"

namespace espalier {

struct DraftWire {
  static constexpr char kMethod[] = "/espalier.v1.Drafter/Draft";
  using Request = v1::DraftRequest;
  using Response = v1::DraftResponse;
  using Info = DrafterInfo;
  using Hello = v1::DrafterHello;

  // The update of a message about a sequence; null for other messages.
  static const v1::SequenceUpdate* Update(const Request& request) {
    return request.has_propose() ? &request.propose().update() : nullptr;
  }
  // REQUIRES: the message has an update.
  static v1::SessionKey& MutableKey(Request& request) {
    return *request.mutable_propose()->mutable_update()->mutable_key();
  }
  // Returns true if a message is a part that precedes another message with the
  // same request_id.
  static bool IsPart(const Request& request) { return request.has_features(); }
  static bool IsPart(const Response& response) {
    return response.has_proposal() && response.proposal().partial();
  }
};

struct VerifyWire {
  static constexpr char kMethod[] = "/espalier.v1.Verifier/Verify";
  using Request = v1::VerifyRequest;
  using Response = v1::VerifyResponse;
  using Info = VerifierInfo;
  using Hello = v1::VerifierHello;

  static const v1::SequenceUpdate* Update(const Request& request) {
    return request.has_verify() ? &request.verify().update() : nullptr;
  }
  static v1::SessionKey& MutableKey(Request& request) {
    return *request.mutable_verify()->mutable_update()->mutable_key();
  }
  static bool IsPart(const Request& /*request*/) { return false; }
  static bool IsPart(const Response& response) {
    return response.has_features();
  }
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_WIRE_H_
