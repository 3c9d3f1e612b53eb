#ifndef ESPALIER_DRAFTER_HEADS_CUDA_ROW_MODEL_H_
#define ESPALIER_DRAFTER_HEADS_CUDA_ROW_MODEL_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cuda/device_array.h"
#include "common/model/cuda/cuda_decoder.h"
#include "common/model/cuda/cuda_kv_cache.h"
#include "common/model/cuda/cuda_logits.h"
#include "common/model/cuda/cuda_pass.h"
#include "common/model/cuda/cuda_weights.h"
#include "common/model/cuda/mailbox.h"
#include "drafter/heads/cuda_candidates.h"
#include "drafter/heads/cuda_feature_store.h"
#include "drafter/heads/cuda_output_rows.h"
#include "drafter/heads/head_runtime.h"
#include "drafter/heads/row_model.h"

namespace espalier::drafter {

// Returns the room for K/V of such layers on a device.
CudaKvStore::Room DeviceRoom(const HeadRuntime& runtime,
                             const ModelConfig& layers,
                             int64_t total_tokens = 1 << 17);

// Holds what a draft network on a device consists of, beside what is special
// about it.
struct CudaNetwork {
  std::shared_ptr<cuda::ComputeDevice> device;  // outlives what follows
  ModelConfig config = {};                      // of its layers
  CudaWeights weights = {};  // head: rows of the draft vocabulary, or none
  CudaAngles angles = {};
  int64_t max_positions = 0;  // that there are angles for
  std::unique_ptr<CudaKvStore> store = {};
  std::unique_ptr<CudaCandidates> candidates = {};

  // Adds what follows from device, config, weights and these. max_positions:
  // of a text. `room` is cut to a tenth of the device's free memory.
  // RESOURCE_EXHAUSTED: no room on the device.
  absl::Status Finish(DraftVocabulary vocabulary, int64_t positions,
                      CudaKvStore::Room room);
};

// The sequences of a RowModel whose network runs on a GPU. A pass is queued and
// not waited for; a ranking waits once.
class CudaRowModel : public RowModel {
 public:
  // features: that rows read; no taps: none.
  CudaRowModel(CudaNetwork network, FeatureContract features);
  ~CudaRowModel() override;

  Sequence NewSequence() override;
  void Release(Sequence sequence) override;
  int64_t Length(Sequence sequence) const override;
  void Truncate(Sequence sequence, int64_t length) override;
  absl::Status Reserve(Sequence sequence, int64_t rows) override;
  void Share(Sequence sequence, absl::Span<const TokenId> labels,
             absl::string_view salt) override;
  FeatureStore* features() override;
  absl::Status Append(Sequence sequence, absl::Span<const TokenId> tokens,
                      const States& states) override;
  absl::Status Run(absl::Span<const TreeRows> batch) override;
  int64_t max_tree_rows() const override {
    return cuda::MostTreeRows(static_cast<int>(config().head_dim));
  }
  absl::StatusOr<std::vector<std::vector<Candidate>>> Rank(
      absl::Span<const Query> queries, int64_t width) override;

 protected:
  // The places that a pass reads and writes, on the device.
  struct Places {
    const cuda::bf16_t* states = nullptr;  // [rows, taps * hidden] or null
    const int32_t* parents = nullptr;      // [rows] of `outputs`, if no states
    const int32_t* to_rows = nullptr;      // [rows] of `outputs`, -1: none
    float* outputs = nullptr;              // [., hidden]
    CudaDecoder::Target target;
  };

  cuda::ComputeDevice& device() const { return *network_.device; }
  const ModelConfig& config() const { return network_.config; }
  const CudaWeights& weights() const { return network_.weights; }
  CudaDecoder& decoder() { return decoder_; }
  float epsilon() const {
    return static_cast<float>(network_.config.norm_epsilon);
  }

 private:
  struct State {
    explicit State(CudaKvStore* store) : cache(store) {}

    CudaKvCache cache;
    int32_t last_output = -1;      // of the last kept row; -1: none yet
    std::vector<int32_t> outputs;  // [rows] of the tree
  };

  // Makes room for what lies between the kernels of so many rows.
  virtual absl::Status Prepare(int rows) = 0;
  // Queues the kernels of a pass that the decoder knows.
  virtual void Launch(const CudaPass& pass, const Places& places) = 0;
  // Returns the weights of the norm of outputs before they are multiplied with
  // the rows of the vocabulary; null: there is none.
  virtual const float* head_norm() const = 0;

  // parents: [rows] or empty; to_rows: [rows]. Both of the outputs' array.
  struct RowPlaces {
    const cuda::bf16_t* states = nullptr;
    std::vector<int32_t> parents = {};
    std::vector<int32_t> to_rows = {};
  };
  absl::Status RunPass(const CudaPass& pass, const RowPlaces& rows);
  absl::StatusOr<std::vector<std::vector<Candidate>>> RankSome(
      absl::Span<const Query> queries, int64_t width);
  State& Get(Sequence sequence);
  const State& Get(Sequence sequence) const;
  void ForgetTree(size_t kept, State& state);

  CudaNetwork network_;
  CudaFeatureStore features_;
  CudaDecoder decoder_;
  CudaLogits logits_;
  Mailbox requests_, answers_;
  CudaOutputRows outputs_;
  cuda::DeviceArray<unsigned char> head_input_;    // activations
  std::unordered_map<Sequence, State> sequences_;  // hold pages of the store
  Sequence next_sequence_ = 1;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_CUDA_ROW_MODEL_H_
