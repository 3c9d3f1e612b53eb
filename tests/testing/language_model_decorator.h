#ifndef ESPALIER_TESTS_TESTING_LANGUAGE_MODEL_DECORATOR_H_
#define ESPALIER_TESTS_TESTING_LANGUAGE_MODEL_DECORATOR_H_

#include <memory>
#include <utility>

#include "common/model/language_model.h"

namespace espalier {

// Forwards every call. Derive from it to observe or change some of them.
class LanguageModelDecorator : public LanguageModel {
 public:
  explicit LanguageModelDecorator(std::unique_ptr<LanguageModel> model)
      : model_(std::move(model)) {}

  const ModelInfo& info() const override { return model_->info(); }
  KvUsage kv_usage() const override { return model_->kv_usage(); }
  DeviceMemory device_memory() const override {
    return model_->device_memory();
  }
  CacheId NewSequence() override { return model_->NewSequence(); }
  void Release(CacheId cache) override { model_->Release(cache); }
  int64_t Length(CacheId cache) const override { return model_->Length(cache); }
  int64_t HeldRoom(CacheId cache) const override {
    return model_->HeldRoom(cache);
  }
  int64_t SharedRoom(CacheId cache) const override {
    return model_->SharedRoom(cache);
  }
  int64_t HeldPrefix(absl::Span<const TokenId> text,
                     absl::string_view salt) const override {
    return model_->HeldPrefix(text, salt);
  }
  int64_t Share(CacheId cache, absl::Span<const TokenId> text,
                absl::string_view salt) override {
    return model_->Share(cache, text, salt);
  }
  absl::StatusOr<std::unique_ptr<LogitRows>> Forward(
      absl::Span<const SequenceRows> batch) override {
    return model_->Forward(batch);
  }
  absl::StatusOr<std::vector<RingSegment>> Store(
      CacheId cache, absl::Span<const int32_t> path,
      absl::Span<const int32_t> taps) override {
    return model_->Store(cache, path, taps);
  }
  absl::StatusOr<std::vector<RingSegment>> StoreRows(
      absl::Span<const int32_t> taps, absl::Span<const uint16_t> rows,
      int64_t position) override {
    return model_->StoreRows(taps, rows, position);
  }
  absl::Status Keep(CacheId cache, absl::Span<const int32_t> path,
                    absl::Span<uint16_t> features) override {
    return model_->Keep(cache, path, features);
  }
  void Truncate(CacheId cache, int64_t length) override {
    model_->Truncate(cache, length);
  }

 private:
  const std::unique_ptr<LanguageModel> model_;
};

}  // namespace espalier

#endif  // ESPALIER_TESTS_TESTING_LANGUAGE_MODEL_DECORATOR_H_
