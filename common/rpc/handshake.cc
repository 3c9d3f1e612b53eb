#include "common/rpc/handshake.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/rpc/convert.h"

namespace espalier {
namespace {

absl::Status CheckVersion(uint32_t theirs) {
  if (theirs == kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the peer speaks protocol version ", theirs, ", this side ",
                   kProtocolVersion));
}

template <typename Hello>
auto CheckPeerHello(const Hello& hello, const ModelIdentity& ours)
    -> decltype(espalier::FromProto(hello)) {
  RETURN_IF_ERROR(CheckVersion(hello.protocol_version()));
  auto info = espalier::FromProto(hello);
  if (!info.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("malformed hello: ", info.status().message()));
  }
  RETURN_IF_ERROR(CheckSameTokens(ours, info->model));
  return info;
}

}  // namespace

absl::Status CheckSameTokens(const ModelIdentity& ours,
                             const ModelIdentity& theirs) {
  if (ours.vocab_size != theirs.vocab_size) {
    return absl::FailedPreconditionError(absl::StrCat(
        "vocabulary of ", theirs.vocab_size, " tokens (\"", theirs.name,
        "\"), here ", ours.vocab_size, " (\"", ours.name, "\")"));
  }
  if (ours.tokenizer_fingerprint != theirs.tokenizer_fingerprint) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "tokenizer fingerprint %016x (\"%s\"), here %016x (\"%s\")",
        theirs.tokenizer_fingerprint, theirs.name, ours.tokenizer_fingerprint,
        ours.name));
  }
  return absl::OkStatus();
}

v1::CoordinatorHello MakeCoordinatorHello(const ModelIdentity& model,
                                          uint64_t epoch) {
  v1::CoordinatorHello hello;
  hello.set_protocol_version(kProtocolVersion);
  hello.set_epoch(epoch);
  *hello.mutable_model() = ToProto(model);
  return hello;
}

absl::Status CheckCoordinator(const v1::CoordinatorHello& hello,
                              const ModelIdentity& ours) {
  RETURN_IF_ERROR(CheckVersion(hello.protocol_version()));
  auto theirs = FromProto(hello.model());
  if (!theirs.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("malformed hello: ", theirs.status().message()));
  }
  return CheckSameTokens(ours, *theirs);
}

absl::StatusOr<DrafterInfo> CheckPeer(const v1::DrafterHello& hello,
                                      const ModelIdentity& ours) {
  return CheckPeerHello(hello, ours);
}

absl::StatusOr<VerifierInfo> CheckPeer(const v1::VerifierHello& hello,
                                       const ModelIdentity& ours) {
  return CheckPeerHello(hello, ours);
}

}  // namespace espalier
