#ifndef ESPALIER_COORDINATOR_GENERATE_SUMMARY_H_
#define ESPALIER_COORDINATOR_GENERATE_SUMMARY_H_

#include <cstdint>

#include "coordinator/request.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// The report of a finished request as its client gets it.
v1::GenerateSummary Summarise(const GenerationReport& report, uint64_t seed);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_GENERATE_SUMMARY_H_
