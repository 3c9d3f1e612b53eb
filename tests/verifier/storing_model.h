#ifndef ESPALIER_TESTS_VERIFIER_STORING_MODEL_H_
#define ESPALIER_TESTS_VERIFIER_STORING_MODEL_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/testing/language_model_decorator.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier {

// Notes what it is told to store, as if it had a device.
class StoringModel final : public LanguageModelDecorator {
 public:
  struct Rows {
    uint64_t key;
    std::vector<int32_t> taps;
    int64_t begin, end;                 // positions
    std::vector<uint16_t> values = {};  // of rows that come from the host
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  struct Notes {
    std::vector<Rows> stored;
    std::vector<std::pair<uint64_t, int64_t>> forgotten;
    std::vector<std::vector<int32_t>> taps;  // of passes
    int64_t num_rows = 0;                    // of passes
  };

  StoringModel(std::unique_ptr<LanguageModel> model, Notes* notes)
      : LanguageModelDecorator(std::move(model)),
        info_(LanguageModelDecorator::info()),
        notes_(*notes) {
    info_.stores_features = true;
  }

  const ModelInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<LogitRows>> Forward(
      absl::Span<const SequenceRows> batch) override {
    for (const SequenceRows& rows : batch) {
      notes_.taps.emplace_back(rows.taps.begin(), rows.taps.end());
      notes_.num_rows += std::ssize(rows.tokens);
    }
    return LanguageModelDecorator::Forward(batch);
  }
  absl::Status Store(CacheId cache, absl::Span<const int32_t> path,
                     uint64_t key, absl::Span<const int32_t> taps) override {
    const int64_t begin = Length(cache);
    notes_.stored.push_back(
        {key, {taps.begin(), taps.end()}, begin, begin + std::ssize(path)});
    return absl::OkStatus();
  }
  absl::Status StoreRows(uint64_t key, absl::Span<const int32_t> taps,
                         absl::Span<const uint16_t> rows,
                         int64_t position) override {
    const int64_t width = std::ssize(taps) * ScriptedLanguageModel::kHiddenSize;
    notes_.stored.push_back({key,
                             {taps.begin(), taps.end()},
                             position,
                             position + std::ssize(rows) / width,
                             {rows.begin(), rows.end()}});
    return absl::OkStatus();
  }
  void ForgetStored(uint64_t key, int64_t position) override {
    if (key != 0) notes_.forgotten.emplace_back(key, position);
  }

 private:
  ModelInfo info_;
  Notes& notes_;
};

struct StoringEngine {
  explicit StoringEngine(const ScriptedLanguageModel::Options& script = {},
                         const VerifyEngine::Options& options = {})
      : engine(std::make_unique<StoringModel>(
                   std::make_unique<ScriptedLanguageModel>(script), &notes),
               options) {}

  StoringModel::Notes notes;
  EngineUnderTest engine;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_TESTS_VERIFIER_STORING_MODEL_H_
