#ifndef ESPALIER_TESTS_VERIFIER_STORING_MODEL_H_
#define ESPALIER_TESTS_VERIFIER_STORING_MODEL_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/testing/language_model_decorator.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier {

// Notes what it is told to store, as if it had a device with a ring. Offsets
// count what was stored.
class StoringModel final : public LanguageModelDecorator {
 public:
  static constexpr uint64_t kRingId = 99;

  struct Rows {
    std::vector<int32_t> taps;
    int64_t begin, end;                 // positions
    std::vector<uint16_t> values = {};  // of rows that come from the host
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  struct Notes {
    std::vector<Rows> stored;
    std::vector<std::vector<int32_t>> taps;  // of passes
    int64_t num_rows = 0;                    // of passes
  };

  StoringModel(std::unique_ptr<LanguageModel> model, Notes* notes)
      : LanguageModelDecorator(std::move(model)),
        info_(LanguageModelDecorator::info()),
        notes_(*notes) {
    info_.feature_ring = {.id = kRingId, .device_id = 1, .data_bytes = 256};
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
  absl::StatusOr<std::vector<RingSegment>> Store(
      CacheId cache, absl::Span<const int32_t> path,
      absl::Span<const int32_t> taps) override {
    return Note(Length(cache), std::ssize(path), taps, {});
  }
  absl::StatusOr<std::vector<RingSegment>> StoreRows(
      absl::Span<const int32_t> taps, absl::Span<const uint16_t> rows,
      int64_t position) override {
    const int64_t width = std::ssize(taps) * ScriptedLanguageModel::kHiddenSize;
    return Note(position, std::ssize(rows) / width, taps, rows);
  }

 private:
  std::vector<RingSegment> Note(int64_t begin, int64_t rows,
                                absl::Span<const int32_t> taps,
                                absl::Span<const uint16_t> values) {
    notes_.stored.push_back({{taps.begin(), taps.end()},
                             begin,
                             begin + rows,
                             {values.begin(), values.end()}});
    if (rows == 0) return {};
    return {{begin, rows, notes_.stored.size()}};
  }

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
