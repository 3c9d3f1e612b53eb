#include "coordinator/cli/bench/load_table.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace espalier::cli {
namespace {

constexpr size_t kColumns = 3;  // of modes
constexpr int kLabelWidth = 17;
constexpr int kCellWidth = 21;
static_assert(kLabelWidth + kColumns * kCellWidth <= 80);

using Cell = std::function<std::string(const LoadRow&)>;

void AddLine(const std::string& label, absl::Span<const LoadRow> rows,
             const Cell& cell, std::string& table) {
  absl::StrAppendFormat(&table, "%-*s", kLabelWidth, label);
  for (const LoadRow& row : rows) {
    absl::StrAppendFormat(&table, "%*s", kCellWidth,
                          cell(row).substr(0, kCellWidth - 1));
  }
  absl::StrAppend(&table, "\n");
}

Cell Count(int64_t LoadRow::*member) {
  return [member](const LoadRow& row) { return absl::StrCat(row.*member); };
}

Cell Number(double LoadRow::*member, int digits) {
  return [=](const LoadRow& row) {
    return absl::StrFormat("%.*f", digits, row.*member);
  };
}

Cell Three(Percentiles LoadRow::*member, int digits) {
  return [=](const LoadRow& row) {
    const Percentiles& p = row.*member;
    return absl::StrFormat("%.*f/%.*f/%.*f", digits, p.p50, digits, p.p95,
                           digits, p.p99);
  };
}

std::string TableOf(absl::Span<const LoadRow> rows) {
  std::string table;
  const auto add = [&](const std::string& label, const Cell& cell) {
    AddLine(label, rows, cell, table);
  };
  add("", [](const LoadRow& row) { return row.mode; });
  add("requests", Count(&LoadRow::requests));
  add("  good", Count(&LoadRow::good));
  add("  refused", Count(&LoadRow::refused));
  add("  failed", Count(&LoadRow::failed));
  add("goodput/s", Number(&LoadRow::goodput, 2));
  add("tokens/s", Number(&LoadRow::tokens_per_s, 1));
  add("tau", Number(&LoadRow::tau, 2));
  add("first token, ms", Three(&LoadRow::first_token_ms, 0));
  add("gap, ms", Three(&LoadRow::gap_ms, 0));
  add("per token, ms", Three(&LoadRow::per_token_ms, 1));
  add("total, ms", Three(&LoadRow::total_ms, 0));
  return table;
}

}  // namespace

std::string LoadTable(absl::Span<const LoadRow> rows) {
  std::string tables;
  for (size_t begin = 0; begin < rows.size(); begin += kColumns) {
    absl::StrAppend(&tables, begin == 0 ? "" : "\n",
                    TableOf(rows.subspan(begin, kColumns)));
  }
  return tables;
}

}  // namespace espalier::cli
