#ifndef ESPALIER_COORDINATOR_API_DESCRIBE_VERIFIER_H_
#define ESPALIER_COORDINATOR_API_DESCRIBE_VERIFIER_H_

#include "common/speculation/messages.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// Describes a ready verifier for GetServerInfo.
void DescribeVerifier(const VerifierInfo& info, v1::PeerInfo& out);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_DESCRIBE_VERIFIER_H_
