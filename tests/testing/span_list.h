// Spans that a test looks at.
#ifndef ESPALIER_TESTS_TESTING_SPAN_LIST_H_
#define ESPALIER_TESTS_TESTING_SPAN_LIST_H_

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/trace/span.h"
#include "gtest/gtest.h"

namespace espalier {

struct SpanList final : SpanSink {
  void Record(Span span) override { spans.push_back(std::move(span)); }

  // The only one of that name.
  Span Only(const std::string& name) const {
    std::vector<Span> found;
    std::copy_if(spans.begin(), spans.end(), std::back_inserter(found),
                 [&](const Span& span) { return span.name == name; });
    EXPECT_EQ(found.size(), 1u) << name;
    return found.empty() ? Span() : found[0];
  }

  std::vector<Span> spans;
};

// Returns an attribute of a span; another value than any if it has none.
template <typename T>
T Attribute(const Span& span, const std::string& name, T otherwise = T(-1)) {
  for (const LogField& field : span.attributes) {
    if (field.name == name) return std::get<T>(field.value);
  }
  return otherwise;
}

}  // namespace espalier

#endif  // ESPALIER_TESTS_TESTING_SPAN_LIST_H_
