#include "common/model/native/native_model.h"

#include <deque>
#include <new>
#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/logits/dense_rows.h"
#include "common/model/logits/gathered_rows.h"
#include "common/model/logits/ranked_rows.h"
#include "common/model/logits/sampled_rows.h"
#include "common/model/native/row_batch.h"

namespace espalier {
namespace {

using Reduction =
    std::variant<DenseRows, SampledRows, RankedRows, GatheredRows>;

// Makes the reduction that serves a sequence's use of its logits.
struct ReductionFactory {
  int64_t vocab = 0;
  const nn::Kernels& kernels;
  int64_t threads = 0;

  // `some`: the reduction does not get every chunk.
  Reduction For(const LogitUse& use, const NativePass::Sequence& part,
                bool some) const {
    const int64_t rows = part.num_logit_rows;
    if (const auto* rank = std::get_if<RankRequest>(&use)) {
      return RankedRows(*rank, rows, vocab, kernels, threads);
    }
    if (const auto* gather = std::get_if<GatherRequest>(&use)) {
      ESPALIER_CHECK(gather->supports->rows() == rows);
      return GatheredRows(*gather, vocab, kernels, threads);
    }
    const auto* draw = std::get_if<DrawRequest>(&use);
    if (draw == nullptr) return DenseRows(rows, vocab, some);
    // A draw is that of the token after the row's.
    std::vector<int64_t> positions(part.tree.positions.end() - rows,
                                   part.tree.positions.end());
    for (int64_t& position : positions) ++position;
    return SampledRows(*draw, positions, kernels, threads);
  }

  // Nullopt: nothing is asked beside the use.
  std::optional<RankedRows> Beside(const RankRequest& ranks,
                                   const NativePass::Sequence& part) const {
    if (ranks.top_k == 0) return std::nullopt;
    return RankedRows(ranks, part.num_logit_rows, vocab, kernels, threads);
  }
};

// Two reductions of the same rows.
class BothReductions final : public RowReduction {
 public:
  BothReductions(RowReduction& first, RowReduction& second)
      : first_(first), second_(second) {}
  void Take(const nn::ProductChunk& chunk) override {
    first_.Take(chunk);
    second_.Take(chunk);
  }

 private:
  RowReduction& first_;
  RowReduction& second_;
};

// The results of a pass's reductions.
class ReducedRows final : public LogitRows {
 public:
  // Returns where the rows' logits go. They follow those added before.
  // `ranked`: beside the reduction.
  RowReduction* Add(int64_t rows, Reduction reduction,
                    std::optional<RankedRows> ranked) {
    auto& part = parts_.emplace_back(std::move(reduction));
    RowReduction* const first =
        std::visit([](auto& r) -> RowReduction* { return &r; }, part);
    RankedRows* beside = nullptr;
    if (ranked.has_value()) beside = &ranked_.emplace_back(*std::move(ranked));
    for (int64_t row = 0; row < rows; ++row) {
      where_.push_back({&part, beside, row});
    }
    if (beside == nullptr) return first;
    return &both_.emplace_back(*first, *beside);
  }

  int64_t num_rows() const override {
    return static_cast<int64_t>(where_.size());
  }

  absl::Span<const float> Row(int64_t row) const override {
    const auto [part, ranked, own_row] = At(row);
    const auto* dense = std::get_if<DenseRows>(part);
    ESPALIER_CHECK(dense != nullptr);
    return dense->Row(own_row);
  }

  absl::StatusOr<SampledToken> Draw(int64_t row, const DrawRequest& request,
                                    int64_t position) const override {
    const auto [part, ranked, own_row] = At(row);
    const auto* sampled = std::get_if<SampledRows>(part);
    if (sampled == nullptr) return LogitRows::Draw(row, request, position);
    ESPALIER_CHECK(sampled->request() == request &&
                   sampled->position(own_row) == position);
    return sampled->Draw(own_row);
  }

  absl::StatusOr<Ranking> Rank(int64_t row,
                               const RankRequest& request) const override {
    const auto [part, beside, own_row] = At(row);
    const RankedRows* const ranked =
        beside != nullptr ? beside : std::get_if<RankedRows>(part);
    if (ranked == nullptr) return LogitRows::Rank(row, request);
    ESPALIER_CHECK(ranked->request() == request);
    return ranked->Rank(own_row);
  }

  absl::StatusOr<GatheredRow> Gather(int64_t row, const GatherRequest& request,
                                     int64_t index) const override {
    const GatheredRows* gathered = GatheredAt(row, request, index);
    if (gathered == nullptr) return LogitRows::Gather(row, request, index);
    return gathered->Gather(index);
  }

  absl::StatusOr<SampledToken> SampleOutside(int64_t row,
                                             const GatherRequest& request,
                                             int64_t index) const override {
    const GatheredRows* gathered = GatheredAt(row, request, index);
    if (gathered == nullptr)
      return LogitRows::SampleOutside(row, request, index);
    return gathered->SampleOutside(index);
  }

 private:
  struct Place {
    const Reduction* part = nullptr;
    const RankedRows* ranked = nullptr;  // beside it
    int64_t row = 0;                     // of the part
  };
  const Place& At(int64_t row) const {
    ESPALIER_CHECK(0 <= row && row < num_rows());
    return where_[row];
  }
  // Null: the logits were stored.
  const GatheredRows* GatheredAt(int64_t row, const GatherRequest& request,
                                 int64_t index) const {
    const auto [part, ranked, own_row] = At(row);
    const auto* gathered = std::get_if<GatheredRows>(part);
    ESPALIER_CHECK(gathered == nullptr ||
                   (gathered->request() == request && own_row == index));
    return gathered;
  }

  std::deque<Reduction> parts_;  // by sequence
  std::deque<RankedRows> ranked_;
  std::deque<BothReductions> both_;
  std::vector<Place> where_;  // by row of the pass
};

// Where the output head has a token that the batch wants; nullopt: everywhere.
std::optional<std::vector<int64_t>> WantedChunks(
    absl::Span<const SequenceRows> batch, int64_t vocab) {
  constexpr int64_t kWords = nn::kChunkColumns / 32;
  std::vector<bool> wanted(nn::ProductChunkCount(vocab));
  for (const SequenceRows& rows : batch) {
    if (rows.num_logit_rows == 0) continue;
    if (rows.wanted.empty() || !std::holds_alternative<AnyUse>(rows.use)) {
      return std::nullopt;
    }
    for (int64_t i = 0; i < std::ssize(rows.wanted); ++i) {
      if (rows.wanted[i] != 0) wanted[i / kWords] = true;
    }
  }
  std::vector<int64_t> chunks;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) chunks.push_back(static_cast<int64_t>(i));
  }
  return chunks;
}

}  // namespace

NativeModel::NativeModel(Parts parts)
    : info_(std::move(parts.info)),
      decoder_(std::move(parts.decoder)),
      pages_(KvPageShape::Of(info_.config, parts.kv_type), decoder_->kernels(),
             parts.room) {}

KvUsage NativeModel::kv_usage() const {
  return {.used_tokens = pages_.pool().used_tokens(),
          .total_tokens = pages_.pool().total_tokens(),
          .cached_tokens = pages_.pages().cached_tokens(),
          .evicted_tokens = pages_.pages().evicted_tokens()};
}

CacheId NativeModel::NewSequence() {
  sequences_.try_emplace(next_id_, &pages_);
  return next_id_++;
}

void NativeModel::Release(CacheId cache) {
  ESPALIER_CHECK(sequences_.erase(cache) == 1);
}

int64_t NativeModel::Length(CacheId cache) const {
  return Get(cache).kv.length();
}

int64_t NativeModel::HeldRoom(CacheId cache) const {
  return Get(cache).kv.own_tokens();
}

int64_t NativeModel::SharedRoom(CacheId cache) const {
  return Get(cache).kv.shared_tokens();
}

int64_t NativeModel::HeldPrefix(absl::Span<const TokenId> text,
                                absl::string_view salt) const {
  return empty_.HeldPrefix(text, salt);
}

int64_t NativeModel::Share(CacheId cache, absl::Span<const TokenId> text,
                           absl::string_view salt) {
  Truncate(cache, Length(cache));  // drops the rows of the last pass
  return Get(cache).kv.Share(text, salt);
}

NativeModel::Sequence& NativeModel::Get(CacheId cache) {
  auto found = sequences_.find(cache);
  ESPALIER_CHECK(found != sequences_.end());
  return found->second;
}

const NativeModel::Sequence& NativeModel::Get(CacheId cache) const {
  return const_cast<NativeModel*>(this)->Get(cache);
}

absl::StatusOr<std::unique_ptr<LogitRows>> NativeModel::Forward(
    absl::Span<const SequenceRows> batch) {
  RETURN_IF_ERROR(CheckBatch(
      batch, [this](CacheId cache) { return Length(cache); },
      RowLimitsOf(info_)));
  try {
    return RunPass(batch);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  }
}

absl::StatusOr<NativePass> NativeModel::BuildPass(
    absl::Span<const SequenceRows> batch) {
  NativePass pass;
  for (const SequenceRows& rows : batch) {
    PagedKvCache& kv = Get(rows.cache).kv;
    const int64_t size = static_cast<int64_t>(rows.tokens.size());
    RETURN_IF_ERROR(kv.Reserve(kv.length() + size));
    NativePass::Sequence part = {
        .first_row = pass.rows(),
        .tree = BuildRowTree(rows.parents, kv.length()),
        .cache = &kv,
        .num_logit_rows = rows.num_logit_rows};
    pass.tokens.insert(pass.tokens.end(), rows.tokens.begin(),
                       rows.tokens.end());
    pass.positions.insert(pass.positions.end(), part.tree.positions.begin(),
                          part.tree.positions.end());
    for (int64_t i = size - rows.num_logit_rows; i < size; ++i) {
      pass.logit_rows.push_back(part.first_row + i);
    }
    pass.sequences.push_back(std::move(part));
  }
  return pass;
}

absl::StatusOr<std::unique_ptr<LogitRows>> NativeModel::RunPass(
    absl::Span<const SequenceRows> batch) {
  ASSIGN_OR_RETURN(NativePass pass, BuildPass(batch));
  pass.head_chunks = WantedChunks(batch, info_.config.vocab_size);
  auto reduced = std::make_unique<ReducedRows>();
  const ReductionFactory factory = {.vocab = info_.config.vocab_size,
                                    .kernels = decoder_->kernels(),
                                    .threads = decoder_->threads()};
  for (size_t i = 0; i < batch.size(); ++i) {
    NativePass::Sequence& part = pass.sequences[i];
    part.logits =
        reduced->Add(part.num_logit_rows,
                     factory.For(batch[i].use, part,
                                 /*some=*/pass.head_chunks.has_value()),
                     factory.Beside(batch[i].ranks, part));
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    Sequence& sequence = Get(batch[i].cache);
    sequence.last_parents.clear();
    sequence.tapped.Start(pass.sequences[i].rows(), batch[i].taps,
                          info_.config.hidden_size);
    pass.sequences[i].tapped = &sequence.tapped;
  }
  decoder_->Run(pass);
  for (size_t i = 0; i < batch.size(); ++i) {
    Get(batch[i].cache).last_parents = pass.sequences[i].tree.parents;
  }
  return reduced;
}

absl::Status NativeModel::Keep(CacheId cache, absl::Span<const int32_t> path,
                               absl::Span<uint16_t> features) {
  Sequence& sequence = Get(cache);
  RETURN_IF_ERROR(CheckPath(sequence.last_parents, path));
  RETURN_IF_ERROR(sequence.tapped.Copy(path, features));
  sequence.kv.Keep(path);
  Truncate(cache, sequence.kv.length());  // also the room of the dropped rows
  return absl::OkStatus();
}

int64_t NativeModel::experts_read() const {
  return decoder_->layers().experts_read();
}

void NativeModel::Truncate(CacheId cache, int64_t length) {
  Sequence& sequence = Get(cache);
  sequence.kv.Truncate(length);
  sequence.last_parents.clear();
  sequence.tapped.Clear();
}

}  // namespace espalier
