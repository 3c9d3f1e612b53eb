#ifndef ESPALIER_COORDINATOR_API_GENERATE_SUMMARY_H_
#define ESPALIER_COORDINATOR_API_GENERATE_SUMMARY_H_

#include <cstdint>

#include "coordinator/session/request.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// The client's summary of a finished request.
v1::GenerateSummary Summarise(const GenerationReport& report, uint64_t seed);

// Takes out the numbers that tell how many tokens a round has brought: those of
// speculation, and times after that of the first token.
void HideRounds(v1::GenerateSummary& summary);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_GENERATE_SUMMARY_H_
