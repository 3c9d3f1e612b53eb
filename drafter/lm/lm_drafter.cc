// Drafts with a language model: a small one with the target's tokenizer, or the
// first layers of the target itself.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "common/model/files/model_identity.h"
#include "drafter/engine/drafter_factories.h"
#include "drafter/engine/option_reader.h"
#include "drafter/heads/head_runtime.h"
#include "drafter/heads/row_model.h"
#include "drafter/heads/tree_grower.h"
#include "drafter/lm/cuda_lm_model.h"
#include "drafter/lm/lm_model.h"

namespace espalier::drafter {
namespace {

class LmDrafter final : public Drafter {
 public:
  LmDrafter(LoadedLm lm, const TreeGrower::Options& options)
      : model_(std::move(lm.model)),
        max_positions_(lm.max_positions),
        vocab_size_(lm.vocab_size),
        grower_(*model_, options) {}

  bool supports_lookahead() const override { return true; }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override;
  void Forget(SequenceId id) override { sequences_.erase(id); }

 private:
  GrownSequence& Get(const SequenceView& view);
  bool CanRead(absl::Span<const TokenId> tokens) const;
  absl::Status CatchUp(const SequenceView& view, GrownSequence& sequence);

  const std::unique_ptr<RowModel> model_;
  const int64_t max_positions_;
  const int64_t vocab_size_;
  TreeGrower grower_;
  absl::flat_hash_map<SequenceId, std::unique_ptr<GrownSequence>> sequences_;
};

absl::StatusOr<std::vector<TokenTree>> LmDrafter::Draft(
    absl::Span<const SequenceView> batch) {
  const auto room_for = [this](const SequenceView& view) {
    return max_positions_ - std::ssize(view.tokens) -
           std::ssize(view.lookahead);
  };
  std::vector<SequenceView> views(batch.begin(), batch.end());
  for (SequenceView& view : views) {
    view.budget.max_depth = std::min(view.budget.max_depth, room_for(view));
  }
  return grower_.Draft(
      views, *this,
      [&](const SequenceView& view) -> absl::StatusOr<GrownSequence*> {
        // The text may be longer than the model can read.
        if (room_for(view) < 0) return nullptr;
        GrownSequence& sequence = Get(view);
        if (!CanRead(view.tokens.subspan(sequence.length())) ||
            !CanRead(view.lookahead)) {
          return nullptr;
        }
        grower_.Learn(view, sequence);
        RETURN_IF_ERROR(CatchUp(view, sequence));
        return &sequence;
      });
}

GrownSequence& LmDrafter::Get(const SequenceView& view) {
  std::unique_ptr<GrownSequence>& held = sequences_[view.id];
  if (held == nullptr) held = std::make_unique<GrownSequence>(model_.get());
  return *held;
}

// The target may have tokens, mere padding, that the model has no rows for.
bool LmDrafter::CanRead(absl::Span<const TokenId> tokens) const {
  return std::all_of(tokens.begin(), tokens.end(),
                     [this](TokenId token) { return token < vocab_size_; });
}

// Runs a row for every committed token, the root included.
absl::Status LmDrafter::CatchUp(const SequenceView& view,
                                GrownSequence& sequence) {
  // The root's row is always run: its output predicts the next token.
  model_->Share(sequence.rows, view.tokens.first(view.tokens.size() - 1),
                view.cache_salt);
  // Reserve before computing: without room the work would be lost.
  RETURN_IF_ERROR(model_->Reserve(sequence.rows, std::ssize(view.tokens)));
  for (;;) {
    const auto rest = view.tokens.subspan(sequence.length());
    if (rest.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(model_->Append(
        sequence.rows,
        rest.first(std::min<size_t>(rest.size(), kRowsPerAppend)),
        /*states=*/{}));
  }
}

absl::Status CheckSpelling(const std::string& folder,
                           const DrafterOptions& options) {
  ASSIGN_OR_RETURN(const TargetIdentity own, IdentifyTarget(folder, ""));
  if (options.tokenizer_fingerprint == 0) {
    if (own.identity.vocab_size == options.vocab_size) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(folder, " has a vocabulary of ", own.identity.vocab_size,
                     " tokens, the target one of ", options.vocab_size,
                     ", and the target's tokenizer is not known"));
  }
  if (own.identity.tokenizer_fingerprint != options.tokenizer_fingerprint) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, " has another tokenizer than the target"));
  }
  return absl::OkStatus();
}

// `device`: null: the CPU.
absl::StatusOr<LoadedLm> Load(const LmOptions& lm, HeadRuntime runtime,
                              std::shared_ptr<cuda::ComputeDevice> device,
                              const DrafterOptions& options) {
  if (lm.folder != options.target_folder) {
    RETURN_IF_ERROR(CheckSpelling(lm.folder, options));
  }
  if (device != nullptr) {
    return LoadLmOnGpu(lm, runtime, std::move(device));
  }
  ASSIGN_OR_RETURN(LmModel::Parts parts, LoadLm(lm, std::move(runtime)));
  LoadedLm loaded = {.max_positions = parts.config.max_positions,
                     .vocab_size = parts.config.vocab_size};
  loaded.model = std::make_unique<LmModel>(std::move(parts));
  return loaded;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> NewLmDrafter(
    const DrafterOptions& options) {
  OptionReader reader("lm", options.options);
  const std::string own_folder = reader.Text("model", "");
  const int64_t layers = reader.Integer("layers", {0, 1, 1 << 10});
  const int64_t kv_tokens = reader.Integer("kv_tokens", {32768, 1, 1 << 24});
  const TreeGrower::Options grower = ReadGrowerOptions(reader);
  // A whole language model may lose more by 4 bits than a head does.
  HeadRuntime runtime = ReadHeadRuntime(reader, ComputeDType::kInt8);
  if (own_folder.empty() && layers == 0) {
    reader.Fail("layers", "is required to draft with the target's own layers");
  }
  RETURN_IF_ERROR(reader.Finish());
  const std::string& folder =
      own_folder.empty() ? options.target_folder : own_folder;
  std::shared_ptr<cuda::ComputeDevice> device;
  if (!runtime.is_cpu()) {
    ASSIGN_OR_RETURN(device, runtime.OpenDevice("lm"));
  }
  ASSIGN_OR_RETURN(
      LoadedLm model,
      WithPrefix(absl::StrCat("drafter lm: option ",
                              own_folder.empty() ? "layers" : "model"),
                 Load({.folder = folder,
                       .layers = layers,
                       .kv_tokens = kv_tokens,
                       .target_vocab = options.vocab_size},
                      std::move(runtime), std::move(device), options)));
  return std::make_unique<LmDrafter>(std::move(model), grower);
}

}  // namespace espalier::drafter
