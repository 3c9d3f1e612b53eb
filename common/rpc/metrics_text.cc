#include "common/rpc/metrics_text.h"

#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/printable.h"
#include "common/rpc/process_metrics.h"
#include "prometheus/text_serializer.h"

namespace espalier {
namespace {

// Prometheus would drop the whole page for one invalid byte.
void MakeUtf8(std::string& text) {
  for (size_t at = 0;; ++at) {
    const size_t wrong = FindInvalidUtf8(absl::string_view(text).substr(at));
    if (wrong == absl::string_view::npos) return;
    at += wrong;
    text[at] = '?';
  }
}

}  // namespace

std::string MetricsText(prometheus::Registry& registry) {
  std::vector<prometheus::MetricFamily> families = registry.Collect();
  for (auto& family : ProcessMetrics().Collect()) {
    families.push_back(std::move(family));
  }
  std::string text = prometheus::TextSerializer().Serialize(families);
  MakeUtf8(text);
  return text;
}

}  // namespace espalier
