#include "drafter/engine/drafter_metrics.h"

namespace espalier::drafter {

DrafterMetrics MakeDrafterMetrics(prometheus::Registry& registry,
                                  const std::string& drafter) {
  return {
      .compute_seconds = AddHistogram(
          registry,
          {.name = "espalier_draft_compute_seconds",
           .help = "Time to draft one batch of trees, inside the drafter.",
           .labels = {{"drafter", drafter}}},
          StageSecondsBuckets()),
      .proposed_nodes = AddCounter(
          registry, {.name = "espalier_drafter_proposed_nodes_total",
                     .help = "Tree nodes answered by the drafter, roots "
                             "excluded, used by a coordinator or not.",
                     .labels = {{"drafter", drafter}}}),
      .sessions_open = AddGauge(
          registry, {.name = "espalier_sessions_open",
                     .help = "Sequences of which the process holds state.",
                     .labels = {{"role", "drafter"}, {"drafter", drafter}}}),
  };
}

}  // namespace espalier::drafter
