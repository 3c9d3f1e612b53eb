#include "drafter/heads/cuda_candidates.h"

#include <algorithm>
#include <cmath>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/cuda/layout.h"
#include "common/model/cuda/device_vectors.h"
#include "common/speculation/gumbel_noise.h"

namespace espalier::drafter {
namespace {

using Tokens = cuda::DeviceArray<int32_t>;

cuda::DrawRow NoiseOf(const CandidateHead::Query& query) {
  return {
      .temperature = query.sampling.greedy() ? 0 : query.sampling.temperature,
      .seed = query.sampling.seed,
      .position = static_cast<uint64_t>(query.position),
      .purpose = static_cast<uint32_t>(NoisePurpose::kWalk)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaCandidates>> CudaCandidates::Make(
    DraftVocabulary vocabulary, int64_t stride, cuda::ComputeDevice& device) {
  ASSIGN_OR_RETURN(Tokens tokens, Tokens::Make(device, vocabulary.size()));
  tokens.Write(0, vocabulary.tokens());
  RETURN_IF_ERROR(device.Wait(device.Record()));
  return absl::WrapUnique(new CudaCandidates(std::move(vocabulary), stride,
                                             std::move(tokens), device));
}

absl::Status CudaCandidates::Describe(
    absl::Span<const CandidateHead::Query> queries, int64_t width,
    Mailbox& requests, Mailbox& answers) {
  const int64_t rows = std::ssize(queries);
  ESPALIER_CHECK(0 < rows && rows <= kMaxQueries);
  std::vector<cuda::DrawRow> noise;
  for (const CandidateHead::Query& query : queries) {
    noise.push_back(NoiseOf(query));
  }
  const bool is_greedy =
      std::all_of(queries.begin(), queries.end(),
                  [](const auto& query) { return query.sampling.greedy(); });
  const int64_t size = cuda::PaddedRows(static_cast<int>(rows)) * stride_;
  RETURN_IF_ERROR(GrowArray(device_, size, logits_));
  RETURN_IF_ERROR(GrowArray(device_, rows * cuda::kMaxRankParts, parts_));
  noise_ = nullptr;
  if (!is_greedy) {
    RETURN_IF_ERROR(GrowArray(device_, size, scores_));
    ASSIGN_OR_RETURN(noise_, requests.Put(noise));
  }
  top_k_ = static_cast<int>(
      std::min<int64_t>({width, vocabulary_.size(), cuda::kMaxRanked}));
  ASSIGN_OR_RETURN(results_, answers.Reserve<cuda::RankResult>(rows));
  ASSIGN_OR_RETURN(top_, answers.Reserve<cuda::LogitOfToken>(rows * top_k_));
  block_ = {.logits = logits_.data(),
            .rows = static_cast<int>(rows),
            .vocab = static_cast<int>(vocabulary_.size()),
            .stride = stride_};
  return absl::OkStatus();
}

void CudaCandidates::Launch() const {
  if (noise_ != nullptr) {
    device_.Launch(cuda::PerturbArgs{.logits = block_,
                                     .rows = noise_,
                                     .tokens = tokens_.data(),
                                     .scores = scores_.data()});
  }
  device_.Launch(
      cuda::RankArgs{.logits = block_,
                     .scores = noise_ == nullptr ? nullptr : scores_.data(),
                     .top_k = top_k_,
                     .parts = parts_.data(),
                     .results = results_.there,
                     .top = top_.there});
}

absl::StatusOr<std::vector<std::vector<Candidate>>> CudaCandidates::Take()
    const {
  std::vector<std::vector<Candidate>> candidates;
  for (int64_t query = 0; query < block_.rows; ++query) {
    const int32_t bad = results_.here[query].bad_token;
    if (bad >= 0) {
      return absl::InternalError(
          absl::StrCat("the logit of token ", bad, " is not finite"));
    }
    candidates.push_back(CandidatesOf(query));
  }
  return candidates;
}

std::vector<Candidate> CudaCandidates::CandidatesOf(int64_t query) const {
  const cuda::RankResult& result = results_.here[query];
  const double log_sum_exp =
      result.largest +
      std::log(static_cast<double>(result.mass) * cuda::kMassUnit);
  std::vector<Candidate> candidates;
  for (const cuda::LogitOfToken& best :
       top_.here.subspan(query * top_k_, top_k_)) {
    candidates.push_back({.token = vocabulary_.tokens()[best.token],
                          .log_prob = std::min(0.0, best.logit - log_sum_exp)});
  }
  return candidates;
}

}  // namespace espalier::drafter
