#include "common/grammar/xgrammar_log.h"

#include <stdexcept>

#include "common/base/check.h"

namespace espalier::grammar {
namespace {

thread_local XgrammarWarnings* collector = nullptr;

}  // namespace

XgrammarWarnings::XgrammarWarnings() {
  ESPALIER_CHECK(collector == nullptr);
  collector = this;
}

XgrammarWarnings::~XgrammarWarnings() { collector = nullptr; }

void XgrammarWarnings::Add(const std::string& warning) {
  if (first_.empty()) first_ = warning;
}

}  // namespace espalier::grammar

// What xgrammar's logging calls, as XGRAMMAR_LOG_CUSTOMIZE wants it
// (cpp/support/logging.h). A fatal message is an exception that it expects.
namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string& file, int lineno,
                               const std::string& message);
void LogMessageImpl(const std::string& file, int lineno, int level,
                    const std::string& message);

void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw std::runtime_error(message);
}

void LogMessageImpl(const std::string&, int, int level,
                    const std::string& message) {
  constexpr int kWarning = 2;
  if (level != kWarning || espalier::grammar::collector == nullptr) return;
  espalier::grammar::collector->Add(message);
}

}  // namespace xgrammar
