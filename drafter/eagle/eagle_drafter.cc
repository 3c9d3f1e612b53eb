// Drafts with an EAGLE head: one small layer that continues the target's hidden
// states, and a tree grown level by level (tree_grower.h).
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "drafter/eagle/cuda_eagle_model.h"
#include "drafter/eagle/cuda_eagle_weights.h"
#include "drafter/eagle/eagle_model.h"
#include "drafter/eagle/eagle_weights.h"
#include "drafter/engine/drafter_factories.h"
#include "drafter/engine/option_reader.h"
#include "drafter/heads/head_runtime.h"
#include "drafter/heads/head_target.h"
#include "drafter/heads/row_model.h"
#include "drafter/heads/tree_grower.h"

namespace espalier::drafter {
namespace {

constexpr int64_t kKvPoolTokens = int64_t{1} << 20;

// The head's state of a sequence: a row for every position from first_position
// to `end` whose feature is present.
struct EagleSequence : GrownSequence {
  using GrownSequence::GrownSequence;

  int64_t first_position = 0;

  int64_t end() const { return first_position + length(); }
};

class EagleDrafter final : public Drafter {
 public:
  EagleDrafter(std::unique_ptr<RowModel> model,
               const TreeGrower::Options& options)
      : model_(std::move(model)), grower_(*model_, options) {}

  FeatureStore* features() override { return model_->features(); }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override;
  void Forget(SequenceId id) override { sequences_.erase(id); }

 private:
  EagleSequence& Get(const SequenceView& view);
  absl::Status CatchUp(const SequenceView& view, EagleSequence& sequence);
  void Share(const SequenceView& view, const EagleSequence& sequence);

  const std::unique_ptr<RowModel> model_;
  TreeGrower grower_;
  absl::flat_hash_map<SequenceId, std::unique_ptr<EagleSequence>> sequences_;
};

absl::StatusOr<std::vector<TokenTree>> EagleDrafter::Draft(
    absl::Span<const SequenceView> batch) {
  return grower_.Draft(
      batch, *this,
      [this](const SequenceView& view) -> absl::StatusOr<GrownSequence*> {
        EagleSequence& sequence = Get(view);
        grower_.Learn(view, sequence);
        RETURN_IF_ERROR(CatchUp(view, sequence));
        const int64_t root = static_cast<int64_t>(view.tokens.size()) - 1;
        const bool predicts_on =
            sequence.end() == root && sequence.length() > 0;
        return predicts_on ? &sequence : nullptr;
      });
}

EagleSequence& EagleDrafter::Get(const SequenceView& view) {
  std::unique_ptr<EagleSequence>& held = sequences_[view.id];
  if (held == nullptr) held = std::make_unique<EagleSequence>(model_.get());
  return *held;
}

// Adds one row for every new feature. The root's feature comes with the next
// round.
absl::Status EagleDrafter::CatchUp(const SequenceView& view,
                                   EagleSequence& sequence) {
  Share(view, sequence);
  const FeatureRange& features = view.features;
  if (features.empty()) return absl::OkStatus();
  if (sequence.end() < features.begin || sequence.length() == 0) {
    // After a gap the head starts again, as if the text began there.
    model_->Truncate(sequence.rows, 0);
    sequence.first_position = features.begin;
  }
  const int64_t root = static_cast<int64_t>(view.tokens.size()) - 1;
  const int64_t end = std::min(features.end, root);
  // Reserve before computing: without room the work would be lost.
  RETURN_IF_ERROR(
      model_->Reserve(sequence.rows, end - sequence.first_position));
  while (sequence.end() < end) {
    const int64_t first = sequence.end();
    const int64_t rows = std::min(kRowsPerAppend, end - first);
    RETURN_IF_ERROR(model_->Append(sequence.rows,
                                   view.tokens.subspan(first + 1, rows),
                                   {.id = view.id, .position = first}));
  }
  return absl::OkStatus();
}

// A row depends on the text up to the token after its position: that token is
// its label, and the first token, which is no row's, is part of the salt. The
// row before the root is always run: its output predicts the next token.
void EagleDrafter::Share(const SequenceView& view,
                         const EagleSequence& sequence) {
  if (sequence.first_position > 0 || view.tokens.size() < 2) return;
  model_->Share(sequence.rows, view.tokens.subspan(1, view.tokens.size() - 2),
                absl::StrCat(view.tokens[0], " ", view.cache_salt));
}

absl::StatusOr<std::unique_ptr<RowModel>> LoadEagleOnCpu(
    const std::string& folder, const HeadTarget& target, HeadRuntime runtime) {
  ASSIGN_OR_RETURN(LoadedEagle head, LoadEagle(folder, target, runtime));
  return std::make_unique<EagleModel>(std::move(head), std::move(runtime),
                                      kKvPoolTokens);
}

absl::StatusOr<std::unique_ptr<RowModel>> LoadModel(const std::string& folder,
                                                    const HeadTarget& target,
                                                    HeadRuntime runtime) {
  absl::StatusOr<std::unique_ptr<RowModel>> model;
  if (runtime.is_cpu()) {
    model = LoadEagleOnCpu(folder, target, std::move(runtime));
  } else {
    ASSIGN_OR_RETURN(auto device, runtime.OpenDevice("eagle"));
    model = LoadEagleOnGpu(folder, target, runtime, std::move(device));
  }
  if (model.ok()) return model;
  return absl::InvalidArgumentError(
      absl::StrCat("drafter eagle: option model: ", model.status().message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> NewEagleDrafter(
    const DrafterOptions& options) {
  OptionReader reader("eagle", options.options);
  const std::string folder = reader.RequiredText("model");
  const TreeGrower::Options grower = ReadGrowerOptions(reader);
  HeadRuntime runtime = ReadHeadRuntime(reader);
  RETURN_IF_ERROR(reader.Finish());
  ASSIGN_OR_RETURN(const HeadTarget target,
                   OpenHeadTarget(options, runtime.random_weights));
  ASSIGN_OR_RETURN(auto model, LoadModel(folder, target, std::move(runtime)));
  return std::make_unique<EagleDrafter>(std::move(model), grower);
}

}  // namespace espalier::drafter
