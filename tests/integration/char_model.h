#ifndef ESPALIER_TESTS_INTEGRATION_CHAR_MODEL_H_
#define ESPALIER_TESTS_INTEGRATION_CHAR_MODEL_H_

#include <string>
#include <vector>

#include "tests/integration/cluster.h"

namespace espalier::testing {

// Returns the character model of the repository: 57k parameters, so a pass
// takes well under a millisecond and a test may decode hundreds of tokens.
std::string CharModelFolder();
std::string CharBigramTable();

// Both kinds of drafters that need no training.
std::vector<DrafterSpec> LookupAndBigram();

// Returns a request of exactly `max_tokens` tokens (no early stop).
v1::GenerateRequest CharRequest(float temperature, uint64_t seed,
                                uint32_t max_tokens = 160);
// Returns the same request without speculation, and with a prompt that is
// computed anew.
v1::GenerateRequest Plain(v1::GenerateRequest request);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_INTEGRATION_CHAR_MODEL_H_
