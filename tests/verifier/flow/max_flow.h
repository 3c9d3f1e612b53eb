#ifndef ESPALIER_TESTS_VERIFIER_FLOW_MAX_FLOW_H_
#define ESPALIER_TESTS_VERIFIER_FLOW_MAX_FLOW_H_

#include <algorithm>
#include <deque>
#include <limits>
#include <vector>

namespace espalier::verifier {

// The largest flow through a small network, by shortest augmenting paths
// (Edmonds, Karp 1972).
class MaxFlow {
 public:
  int AddNode() {
    edges_of_.emplace_back();
    return static_cast<int>(edges_of_.size()) - 1;
  }

  void AddEdge(int from, int to, double capacity) {
    edges_of_[from].push_back(static_cast<int>(edges_.size()));
    edges_.push_back({to, capacity});
    edges_of_[to].push_back(static_cast<int>(edges_.size()));
    edges_.push_back({from, 0});
  }

  double Solve(int source, int sink) {
    double flow = 0;
    while (FindPath(source, sink)) {
      double pushed = std::numeric_limits<double>::infinity();
      for (int v = sink; v != source; v = edges_[reached_by_[v] ^ 1].to) {
        pushed = std::min(pushed, edges_[reached_by_[v]].capacity);
      }
      for (int v = sink; v != source; v = edges_[reached_by_[v] ^ 1].to) {
        edges_[reached_by_[v]].capacity -= pushed;
        edges_[reached_by_[v] ^ 1].capacity += pushed;
      }
      flow += pushed;
    }
    return flow;
  }

 private:
  struct Edge {  // its reverse is the other one of the pair
    int to;
    double capacity;
  };

  bool FindPath(int source, int sink) {
    reached_by_.assign(edges_of_.size(), -1);
    std::deque<int> queue = {source};
    while (!queue.empty() && reached_by_[sink] < 0) {
      const int v = queue.front();
      queue.pop_front();
      for (int e : edges_of_[v]) {
        const int to = edges_[e].to;
        if (edges_[e].capacity < 1e-14 || to == source) continue;
        if (reached_by_[to] >= 0) continue;
        reached_by_[to] = e;
        queue.push_back(to);
      }
    }
    return reached_by_[sink] >= 0;
  }

  std::vector<Edge> edges_;
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> reached_by_;  // [nodes] edge, or -1
};

}  // namespace espalier::verifier

#endif  // ESPALIER_TESTS_VERIFIER_FLOW_MAX_FLOW_H_
