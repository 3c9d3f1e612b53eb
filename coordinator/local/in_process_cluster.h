#ifndef ESPALIER_COORDINATOR_LOCAL_IN_PROCESS_CLUSTER_H_
#define ESPALIER_COORDINATOR_LOCAL_IN_PROCESS_CLUSTER_H_

#include "coordinator/cli/local_cluster.h"

namespace espalier::local {

// The cluster of --local: `espalier serve` on a socket in a folder of its own.
cli::LocalClusterFactory InProcessClusterFactory();

}  // namespace espalier::local

#endif  // ESPALIER_COORDINATOR_LOCAL_IN_PROCESS_CLUSTER_H_
