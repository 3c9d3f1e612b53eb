#ifndef ESPALIER_COMMON_BASE_DESCRIPTOR_LIMIT_H_
#define ESPALIER_COMMON_BASE_DESCRIPTOR_LIMIT_H_

namespace espalier {

// Raises the process's limit of open descriptors, often 1024 at start, to what
// the system allows.
void RaiseDescriptorLimit();

// Returns the current limit.
int DescriptorLimit();

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_DESCRIPTOR_LIMIT_H_
