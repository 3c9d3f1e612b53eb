#include "common/model/cuda/launch_graphs.h"

#include <algorithm>
#include <utility>

namespace espalier {

void LaunchGraphs::Flush() {
  const auto found =
      std::find_if(passes_.begin(), passes_.end(),
                   [&](const Pass& pass) { return pass.launches == pending_; });
  if (found == passes_.end()) {
    LaunchPending();
    Remember();
  } else {
    passes_.splice(passes_.begin(), passes_, found);
    Replay(passes_.front());
  }
  pending_.clear();
}

void LaunchGraphs::Remember() {
  if (passes_.size() == most_graphs_) passes_.pop_back();
  passes_.push_front({.launches = std::move(pending_)});
}

void LaunchGraphs::Replay(Pass& pass) {
  if (!std::exchange(pass.came_again, true)) {
    auto graph = device_.Capture(pending_);
    if (graph.ok()) pass.graph = *std::move(graph);
  }
  if (pass.graph == nullptr) return LaunchPending();
  pass.graph->Replay();
}

void LaunchGraphs::LaunchPending() {
  for (const cuda::KernelArgs& args : pending_) device_.Launch(args);
}

}  // namespace espalier
