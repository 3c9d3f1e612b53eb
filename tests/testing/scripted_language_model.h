#ifndef ESPALIER_TESTS_TESTING_SCRIPTED_LANGUAGE_MODEL_H_
#define ESPALIER_TESTS_TESTING_SCRIPTED_LANGUAGE_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/bf16.h"
#include "common/base/check.h"
#include "common/model/language_model.h"

namespace espalier {

// A LanguageModel without a network: the logits after a text are a pure
// function of all its tokens. Its cache is the text itself, so a wrong prefix
// or a wrong Keep gives another text.
class ScriptedLanguageModel final : public LanguageModel {
 public:
  struct Options {
    int64_t vocab_size = 40;
    int64_t max_context = 200;
    int64_t max_rows = 32;
    int64_t max_chain_rows = 0;  // 0: max_rows
    int64_t pool_tokens = 1000;  // whole blocks
    int64_t block_tokens = 1;
    float deviation = 2.0f;  // of the logits
    std::vector<int64_t> row_edges = {};
    bool shares_kv = false;
  };
  static constexpr int64_t kNumLayers = 3;
  static constexpr int64_t kHiddenSize = 4;

  // Called before every pass; an error fails it.
  using PassHook = std::function<absl::Status(absl::Span<const SequenceRows>)>;

  explicit ScriptedLanguageModel(const Options& options) : options_(options) {
    info_.config.vocab_size = options.vocab_size;
    info_.config.num_layers = kNumLayers;
    info_.config.hidden_size = kHiddenSize;
    info_.config.eos_ids = {2};
    info_.device = "script";
    info_.compute_dtype = "float32";
    info_.threads = 1;
    info_.backend = "scripted";
    info_.kv_groups.block_tokens = options.block_tokens;
    info_.max_context = std::min(options.max_context, options.pool_tokens);
    info_.max_rows = options.max_rows;
    info_.max_chain_rows =
        options.max_chain_rows > 0 ? options.max_chain_rows : options.max_rows;
    info_.row_edges = options.row_edges;
    info_.shares_kv = options.shares_kv;
  }

  // [vocab_size] logits after `text`.
  static std::vector<float> LogitsAfter(const Options& options,
                                        absl::Span<const TokenId> text) {
    uint64_t seed = text.size();
    for (TokenId token : text) seed = seed * 6364136223846793005 + token + 1;
    std::mt19937_64 random(seed);
    std::normal_distribution<float> logit(0.0f, options.deviation);
    std::vector<float> row(options.vocab_size);
    for (float& value : row) value = logit(random);
    return row;
  }

  // [kHiddenSize] hidden state at one point, of the last token of `text`.
  // bf16 holds it exactly.
  static std::vector<float> StateAt(int32_t tap,
                                    absl::Span<const TokenId> text) {
    uint64_t seed = text.size() + 1000 * static_cast<uint64_t>(tap);
    for (TokenId token : text) seed = seed * 6364136223846793005 + token + 1;
    std::vector<float> state;
    for (int64_t i = 0; i < kHiddenSize; ++i) {
      state.push_back(static_cast<float>((seed >> (8 * i)) & 0x7F) - 64.0f);
    }
    return state;
  }

  void set_pass_hook(PassHook hook) { hook_ = std::move(hook); }
  // Changes the logits that passes give from now on.
  void set_spoil(std::function<void(std::vector<float>&)> spoil) {
    spoil_ = std::move(spoil);
  }
  int64_t num_sequences() const {
    return static_cast<int64_t>(sequences_.size());
  }
  int64_t num_passes() const { return num_passes_; }

  const ModelInfo& info() const override { return info_; }
  KvUsage kv_usage() const override {
    int64_t used = 0;
    for (const auto& [id, sequence] : sequences_) used += HeldRoom(id);
    return {used, options_.pool_tokens};
  }

  CacheId NewSequence() override {
    sequences_[next_id_] = {};
    return next_id_++;
  }
  void Release(CacheId cache) override {
    ESPALIER_CHECK(sequences_.erase(cache) == 1);
  }
  int64_t Length(CacheId cache) const override {
    return static_cast<int64_t>(sequences_.at(cache).text.size());
  }
  // The rows of the last pass count until Keep.
  int64_t HeldRoom(CacheId cache) const override {
    return RoomFor(Length(cache) + std::ssize(sequences_.at(cache).tokens));
  }

  // Keeps what was offered for ever, and copies it, so sequences hold all their
  // room alone.
  int64_t Share(CacheId cache, absl::Span<const TokenId> text,
                absl::string_view salt) override {
    if (!options_.shares_kv) return 0;
    const int64_t block = options_.block_tokens;
    const int64_t before = Length(cache);
    Truncate(cache, before);
    for (int64_t end = block; end <= before; end += block) {
      offered_.emplace(std::string(salt),
                       std::vector<TokenId>(text.begin(), text.begin() + end));
    }
    std::vector<TokenId>& own = sequences_.at(cache).text;
    for (int64_t end = (before / block + 1) * block;
         end <= static_cast<int64_t>(text.size()); end += block) {
      std::vector<TokenId> prefix(text.begin(), text.begin() + end);
      const KvUsage kv = kv_usage();
      if (!offered_.contains({std::string(salt), prefix}) ||
          kv.used_tokens + block > kv.total_tokens) {
        break;
      }
      own = std::move(prefix);
    }
    return Length(cache) - before;
  }

  absl::StatusOr<std::unique_ptr<LogitRows>> Forward(
      absl::Span<const SequenceRows> batch) override {
    if (hook_) {
      if (absl::Status status = hook_(batch); !status.ok()) return status;
    }
    ++num_passes_;
    auto logits = std::make_unique<Rows>();
    for (const SequenceRows& rows : batch) {
      Sequence& sequence = sequences_.at(rows.cache);
      const int64_t size = static_cast<int64_t>(rows.tokens.size());
      if (size < 1 ||
          size >
              (IsChain(rows.parents) ? info_.max_chain_rows : info_.max_rows) ||
          rows.parents.size() != rows.tokens.size()) {
        return absl::InvalidArgumentError(absl::StrCat(size, " rows"));
      }
      if (Length(rows.cache) + size > info_.max_context) {
        return absl::OutOfRangeError("max_context");
      }
      if (kv_usage().used_tokens - HeldRoom(rows.cache) +
              RoomFor(Length(rows.cache) + size) >
          options_.pool_tokens) {
        return absl::ResourceExhaustedError("the K/V pool is full");
      }
      sequence.tokens.assign(rows.tokens.begin(), rows.tokens.end());
      sequence.parents.assign(rows.parents.begin(), rows.parents.end());
      for (int64_t row = size - rows.num_logit_rows; row < size; ++row) {
        logits->rows.push_back(LogitsAfter(options_, TextAt(sequence, row)));
        if (spoil_) spoil_(logits->rows.back());
        LeaveOut(rows.wanted, logits->rows.back());
      }
      sequence.taps.assign(rows.taps.begin(), rows.taps.end());
    }
    return logits;
  }

  absl::Status Keep(CacheId cache, absl::Span<const int32_t> path,
                    absl::Span<uint16_t> features) override {
    Sequence& sequence = sequences_.at(cache);
    int32_t parent = kPrefixParent;
    for (int32_t row : path) {
      if (row < 0 || row >= static_cast<int32_t>(sequence.parents.size()) ||
          sequence.parents[row] != parent) {
        return absl::InvalidArgumentError(absl::StrCat("row ", row));
      }
      parent = row;
    }
    if (!features.empty()) WriteFeatures(sequence, path, features);
    for (int32_t row : path) sequence.text.push_back(sequence.tokens[row]);
    sequence.tokens.clear();
    sequence.parents.clear();
    return absl::OkStatus();
  }

  void Truncate(CacheId cache, int64_t length) override {
    ESPALIER_CHECK(length >= 0 && length <= Length(cache));
    Sequence& sequence = sequences_.at(cache);
    sequence.text.resize(length);
    sequence.tokens.clear();
    sequence.parents.clear();
  }

 private:
  int64_t RoomFor(int64_t positions) const {
    return info_.kv_groups.RoomFor(positions, /*rows=*/0);
  }
  // Logits that are not wanted would win, if someone read them.
  static void LeaveOut(absl::Span<const uint32_t> wanted,
                       std::vector<float>& row) {
    for (size_t token = 0; token < row.size() && !wanted.empty(); ++token) {
      if ((wanted[token / 32] >> (token % 32) & 1) == 0) row[token] = 1000;
    }
  }

  struct Sequence {
    std::vector<TokenId> text;     // cached
    std::vector<TokenId> tokens;   // of the last pass
    std::vector<int32_t> parents;  // of the last pass
    std::vector<int32_t> taps;     // of the last pass
  };
  struct Rows final : LogitRows {
    int64_t num_rows() const override {
      return static_cast<int64_t>(rows.size());
    }
    absl::Span<const float> Row(int64_t row) const override {
      return rows.at(row);
    }
    std::vector<std::vector<float>> rows;
  };

  static void WriteFeatures(const Sequence& sequence,
                            absl::Span<const int32_t> path,
                            absl::Span<uint16_t> features) {
    auto out = features.begin();
    for (int32_t row : path) {
      const auto text = TextAt(sequence, row);
      for (int32_t tap : sequence.taps) {
        const std::vector<float> state = StateAt(tap, text);
        out = std::transform(state.begin(), state.end(), out, FloatToBf16);
      }
    }
    ESPALIER_CHECK(out == features.end());
  }

  static std::vector<TokenId> TextAt(const Sequence& sequence, int64_t row) {
    std::vector<TokenId> branch;
    for (int64_t i = row; i != kPrefixParent; i = sequence.parents[i]) {
      branch.push_back(sequence.tokens[i]);
    }
    std::vector<TokenId> text = sequence.text;
    text.insert(text.end(), branch.rbegin(), branch.rend());
    return text;
  }

  Options options_;
  ModelInfo info_;
  PassHook hook_;
  std::function<void(std::vector<float>&)> spoil_;
  std::map<CacheId, Sequence> sequences_;
  std::set<std::pair<std::string, std::vector<TokenId>>> offered_;
  CacheId next_id_ = 1;
  int64_t num_passes_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_TESTS_TESTING_SCRIPTED_LANGUAGE_MODEL_H_
