#ifndef ESPALIER_COORDINATOR_METRICS_ENUM_COUNTERS_H_
#define ESPALIER_COORDINATOR_METRICS_ENUM_COUNTERS_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "prometheus/counter.h"

namespace espalier::coordinator {

// A counter for each value of an enum, whose name is a label. Thread-safe.
template <typename Enum>
class EnumCounters {
 public:
  struct Label {
    Enum value;
    const char* name;
  };
  // `labels` has all values in their order; `add` makes the counter of one.
  EnumCounters(absl::Span<const Label> labels,
               absl::FunctionRef<prometheus::Counter&(const char* name)> add) {
    for (const Label& label : labels) {
      ESPALIER_CHECK(static_cast<size_t>(label.value) == counters_.size());
      counters_.emplace_back(label.name, &add(label.name));
    }
  }

  void Increment(Enum value) const {
    counters_[static_cast<size_t>(value)].second->Increment();
  }

  // Returns the counts by name.
  std::map<std::string, double> Values() const {
    std::map<std::string, double> values;
    for (const auto& [name, counter] : counters_) {
      values[name] = counter->Value();
    }
    return values;
  }

 private:
  std::vector<std::pair<const char*, prometheus::Counter*>> counters_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_METRICS_ENUM_COUNTERS_H_
