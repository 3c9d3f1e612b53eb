#ifndef ESPALIER_VERIFIER_ENGINE_MEMORY_REPORT_H_
#define ESPALIER_VERIFIER_ENGINE_MEMORY_REPORT_H_

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/model/language_model.h"
#include "common/speculation/messages.h"
#include "verifier/engine/session_table.h"
#include "verifier/engine/verifier_metrics.h"

namespace espalier::verifier {

// The engine's memory, as results, metrics and VerifierInfo report it. Used on
// the engine's executor, but for published().
class MemoryReport {
 public:
  // Both must outlive this object.
  MemoryReport(LanguageModel& model, VerifierMetrics& metrics)
      : model_(model), metrics_(metrics) {}

  MemoryUse now() const;
  MemoryUse published() const;  // thread-safe

  // Asks the device again, which takes longer than the rest.
  void AskDevice();
  // Publishes, and sets the gauges of memory and of the sessions.
  void Publish(const SessionTable& sessions);

 private:
  LanguageModel& model_;
  VerifierMetrics& metrics_;
  DeviceMemory device_;  // when it was asked last
  mutable Mutex mutex_;
  MemoryUse published_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_MEMORY_REPORT_H_
