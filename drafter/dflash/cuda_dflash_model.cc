#include "drafter/dflash/cuda_dflash_model.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/cuda/layout.h"
#include "common/model/cuda/cuda_product.h"
#include "common/model/cuda/device_vectors.h"

namespace espalier::drafter {
namespace {

// Gives the rows of a sequence consecutive positions of the text.
RowTree Positioned(RowTree tree, int64_t first) {
  std::iota(tree.positions.begin(), tree.positions.end(), first);
  return tree;
}

}  // namespace

CudaDflashModel::CudaDflashModel(CudaDflash drafter)
    : PagedBlockModel(drafter.config, std::move(drafter.network.store),
                      drafter.shares),
      drafter_(std::move(drafter)),
      features_(config().features(), device()),
      decoder_(drafter_.network.config, drafter_.network.weights,
               std::move(drafter_.network.angles), device(), device()),
      requests_(device()),
      answers_(device()) {}

// Waits, because queued kernels may still read memory of the host.
CudaDflashModel::~CudaDflashModel() {
  static_cast<void>(device().Wait(device().Record()));
}

absl::Status CudaDflashModel::Reserve(const NewRows& rows) {
  if (rows.root_position + config().block_size >
      drafter_.network.max_positions) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a block drafter of ", drafter_.network.max_positions, " positions"));
  }
  const int64_t begin = BeginOf(rows), count = CountOf(rows);
  if (count > 0) {
    RETURN_IF_ERROR(features_.Rows(rows.id, {begin, begin + count}).status());
  }
  return PagedBlockModel::Reserve(rows);
}

absl::Status CudaDflashModel::ReserveContexts(int rows) {
  const auto bytes = [rows](int64_t columns) {
    return static_cast<int64_t>(
        cuda::ActivationBytes(rows, static_cast<uint32_t>(columns)));
  };
  const CudaLinear& fc = drafter_.fc;
  RETURN_IF_ERROR(
      GrowArray(device(), bytes(config().features().width()), taken_));
  RETURN_IF_ERROR(GrowArray(device(), bytes(fc.outputs), normed_));
  return GrowArray(device(),
                   std::max(PartsSize(fc, rows),
                            PartsSize(drafter_.context_kv.product, rows)),
                   parts_);
}

absl::Status CudaDflashModel::ExtendBy(absl::Span<const Piece> pieces) {
  CudaPass pass(config().layers);
  std::vector<cuda::TakeRowsArgs> takes;
  const auto width = static_cast<int>(config().features().width());
  for (const Piece& piece : pieces) {
    takes.push_back({.rows = static_cast<int>(piece.count),
                     .columns = width,
                     .out_columns = width,
                     .first_out_row = pass.num_rows()});
    ASSIGN_OR_RETURN(takes.back().from_bits,
                     features_.Rows(piece.rows->id,
                                    {piece.first, piece.first + piece.count}));
    CudaKvCache& kv = Get(piece.rows->context).kv;
    pass.Add(std::vector<TokenId>(piece.count, 0),
             Positioned(ContextRows(kv.length(), piece.count), piece.first),
             kv.tables(), /*num_logit_rows=*/0);
  }
  pass.ForgetAttention();
  RETURN_IF_ERROR(ReserveContexts(pass.num_rows()));
  RETURN_IF_ERROR(requests_.Clear());
  RETURN_IF_ERROR(decoder_.Describe(pass, requests_));
  requests_.Send();
  for (cuda::TakeRowsArgs& take : takes) {
    take.out = taken_.data();
    take.out_block = cuda::RowBlock(pass.num_rows());
    device().Launch(take);
  }
  Fuse(pass.num_rows());
  decoder_.CacheRows(drafter_.context_kv, normed_.data(), parts_.data(), pass,
                     {.pages = store().memory()});
  return absl::OkStatus();
}

void CudaDflashModel::Fuse(int rows) {
  const CudaLinear& fc = drafter_.fc;
  device().Launch(ProductOf(fc, taken_.data(), rows, parts_.data()));
  device().Launch(cuda::TakeRowsArgs{
      .parts = PartsOf(fc, rows, parts_.data()),
      .rows = rows,
      .columns = fc.outputs,
      .weight = drafter_.context_norm.data(),
      .epsilon = static_cast<float>(config().layers.norm_epsilon),
      .out = normed_.data(),
      .out_block = cuda::RowBlock(rows),
      .out_columns = fc.outputs});
}

absl::StatusOr<std::vector<std::vector<std::vector<Candidate>>>>
CudaDflashModel::Predict(absl::Span<const Block> blocks, int64_t width) {
  Marginals marginals;
  while (!blocks.empty()) {
    RETURN_IF_ERROR(PredictSome(blocks, width, marginals));
  }
  return marginals;
}

// The block's own keys and values stay after the prefix, where the next rows
// overwrite them.
absl::Status CudaDflashModel::PredictSome(absl::Span<const Block>& blocks,
                                          int64_t width, Marginals& marginals) {
  const int64_t size = config().block_size;
  CudaPass pass(config().layers);
  std::vector<CandidateHead::Query> queries;
  size_t count = 0;
  for (; count < blocks.size(); ++count) {
    const Block& block = blocks[count];
    ESPALIER_CHECK(std::ssize(block.wanted) < size);
    if (std::ssize(queries) + std::ssize(block.wanted) >
        CudaCandidates::kMaxQueries) {
      break;
    }
    std::vector<TokenId> tokens(size, config().mask_token);
    tokens[0] = block.root;
    CudaKvCache& kv = Get(block.context).kv;
    const int first_row = pass.num_rows();
    pass.Add(tokens,
             Positioned(BlockRows(kv.length(), size, config().causal),
                        block.root_position),
             kv.tables(), /*num_logit_rows=*/0);
    for (size_t i = 0; i < block.wanted.size(); ++i) {
      pass.logit_rows[first_row + 1 + i] = pass.num_logit_rows++;
      queries.push_back(
          {.sampling = block.wanted[i],
           .position = block.root_position + 1 + static_cast<int64_t>(i)});
    }
  }
  CudaCandidates& candidates = *drafter_.network.candidates;
  RETURN_IF_ERROR(requests_.Clear());
  RETURN_IF_ERROR(answers_.Clear());
  RETURN_IF_ERROR(decoder_.Describe(pass, requests_));
  RETURN_IF_ERROR(candidates.Describe(queries, width, requests_, answers_));
  requests_.Send();
  decoder_.Launch(pass,
                  {.pages = store().memory(), .logits = candidates.logits()});
  candidates.Launch();
  RETURN_IF_ERROR(answers_.Receive());
  ASSIGN_OR_RETURN(std::vector<std::vector<Candidate>> ranked,
                   candidates.Take());
  auto next = std::make_move_iterator(ranked.begin());
  for (const Block& block : blocks.first(count)) {
    marginals.emplace_back(next, next + std::ssize(block.wanted));
    next += std::ssize(block.wanted);
  }
  blocks.remove_prefix(count);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BlockModel>> LoadDflashOnGpu(
    const std::string& folder, const HeadTarget& target,
    const HeadRuntime& runtime, std::shared_ptr<cuda::ComputeDevice> device) {
  ASSIGN_OR_RETURN(CudaDflash drafter,
                   LoadCudaDflash(folder, target, runtime, std::move(device)));
  return std::make_unique<CudaDflashModel>(std::move(drafter));
}

}  // namespace espalier::drafter
