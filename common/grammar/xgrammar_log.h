#ifndef ESPALIER_COMMON_GRAMMAR_XGRAMMAR_LOG_H_
#define ESPALIER_COMMON_GRAMMAR_XGRAMMAR_LOG_H_

#include <string>

namespace espalier::grammar {

// Collects xgrammar's warnings on this thread while it lives; at most one at a
// time. Warnings on other threads are dropped: xgrammar says by them what it
// does not follow, and nothing that an operator could act on.
class XgrammarWarnings {
 public:
  XgrammarWarnings();
  ~XgrammarWarnings();
  XgrammarWarnings(const XgrammarWarnings&) = delete;
  XgrammarWarnings& operator=(const XgrammarWarnings&) = delete;

  const std::string& first() const { return first_; }  // empty: none
  void Add(const std::string& warning);

 private:
  std::string first_;
};

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_XGRAMMAR_LOG_H_
