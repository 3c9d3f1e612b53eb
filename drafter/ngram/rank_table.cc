#include "drafter/ngram/rank_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"

namespace espalier::drafter {
namespace {

// The bytes of a row in the table, beside its entries.
constexpr int64_t kRowBytes = 64;
constexpr size_t kMaxEntries = kMaxRanksTop;
constexpr float kMinChance = 1e-6f;
constexpr uint64_t kNoToken = 0xffffffff;

uint64_t KeyOf(TokenId previous, TokenId last) {
  return static_cast<uint64_t>(static_cast<uint32_t>(previous)) << 32 |
         static_cast<uint32_t>(last);
}

// After one token. No pair has this key, as no token has this number.
uint64_t KeyOf(TokenId last) {
  return kNoToken << 32 | static_cast<uint32_t>(last);
}

}  // namespace

void RankTable::Observe(const TokenRanks& ranks) {
  std::vector<Entry> seen;
  for (int64_t row = 0; row < ranks.size(); ++row) {
    const auto tokens = ranks.TokensOf(row);
    const auto log_probs = ranks.LogProbsOf(row);
    seen.clear();
    for (size_t i = 0; i < tokens.size(); ++i) {
      seen.push_back({tokens[i], std::min(1.0f, std::exp(log_probs[i]))});
    }
    std::sort(seen.begin(), seen.end(),
              [](const Entry& a, const Entry& b) { return a.token < b.token; });
    const auto context = ranks.ContextOf(row);
    Observe(KeyOf(context[0], context[1]), seen);
    Observe(KeyOf(context[1]), seen);
  }
}

std::vector<Candidate> RankTable::After(absl::Span<const TokenId> context) {
  std::vector<Candidate> candidates;
  if (context.empty()) return candidates;
  const Row* row = nullptr;
  if (context.size() >= 2) {
    row = Find(KeyOf(context[context.size() - 2], context.back()));
  }
  if (row == nullptr) row = Find(KeyOf(context.back()));
  if (row == nullptr) return candidates;
  for (const Entry& entry : row->entries) {
    candidates.push_back(
        {.token = entry.token, .log_prob = std::log(double{entry.chance})});
  }
  return candidates;
}

int64_t RankTable::BytesOf(const Row& row) {
  return kRowBytes + static_cast<int64_t>(row.entries.size() * sizeof(Entry));
}

RankTable::Row* RankTable::Find(uint64_t key) {
  const auto young = young_.rows.find(key);
  if (young != young_.rows.end()) return &young->second;
  const auto old = old_.rows.find(key);
  if (old == old_.rows.end()) return nullptr;
  const int64_t bytes = BytesOf(old->second);
  Row& row = young_.rows.emplace(key, std::move(old->second)).first->second;
  old_.rows.erase(old);
  old_.bytes -= bytes;
  young_.bytes += bytes;
  return &row;
}

void RankTable::Observe(uint64_t key, absl::Span<const Entry> seen) {
  if (young_.bytes > max_bytes_) Age();
  Row* row = Find(key);
  if (row == nullptr) {
    row = &young_.rows[key];
    young_.bytes += kRowBytes;
  }
  young_.bytes -= BytesOf(*row);
  Average(seen, *row);
  young_.bytes += BytesOf(*row);
}

// A token that a row lacks has chance 0 in it.
void RankTable::Average(absl::Span<const Entry> seen, Row& row) {
  row.count = std::min(row.count + 1, kFading);
  const float weight = 1 / static_cast<float>(row.count);
  std::vector<Entry> mean;
  mean.reserve(row.entries.size() + seen.size());
  auto held = row.entries.begin();
  for (const Entry& entry : seen) {
    for (; held != row.entries.end() && held->token < entry.token; ++held) {
      mean.push_back({held->token, (1 - weight) * held->chance});
    }
    float before = 0;
    if (held != row.entries.end() && held->token == entry.token) {
      before = held++->chance;
    }
    mean.push_back({entry.token, before + weight * (entry.chance - before)});
  }
  for (; held != row.entries.end(); ++held) {
    mean.push_back({held->token, (1 - weight) * held->chance});
  }
  std::erase_if(mean, [](const Entry& e) { return e.chance < kMinChance; });
  if (mean.size() > kMaxEntries) {
    std::vector<Entry> likeliest = mean;
    const auto last = likeliest.begin() + (kMaxEntries - 1);
    std::nth_element(
        likeliest.begin(), last, likeliest.end(),
        [](const Entry& a, const Entry& b) { return a.chance > b.chance; });
    const float least = last->chance;
    std::erase_if(mean, [&](const Entry& e) { return e.chance < least; });
    if (mean.size() > kMaxEntries) mean.resize(kMaxEntries);
  }
  row.entries.assign(mean.begin(), mean.end());
  row.entries.shrink_to_fit();
}

void RankTable::Age() {
  old_ = std::move(young_);
  young_ = {};
}

}  // namespace espalier::drafter
