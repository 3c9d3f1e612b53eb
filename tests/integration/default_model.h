#ifndef ESPALIER_TESTS_INTEGRATION_DEFAULT_MODEL_H_
#define ESPALIER_TESTS_INTEGRATION_DEFAULT_MODEL_H_

#include <string>

namespace espalier::testing {

// Returns where set-up puts the quick start's model.
std::string DefaultModelFolder();
bool HasDefaultModel();

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_INTEGRATION_DEFAULT_MODEL_H_
