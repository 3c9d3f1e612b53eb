#ifndef ESPALIER_COMMON_CHAT_JINJA_FILTERS_H_
#define ESPALIER_COMMON_CHAT_JINJA_FILTERS_H_

#include <string_view>

#include "common/chat/jinja/interpreter.h"
#include "common/chat/jinja/value.h"

// Jinja's filters and tests, with tojson as transformers has it.
namespace espalier::jinja {

using FilterFunction = Value (*)(Interpreter& interpreter, const Value& subject,
                                 CallArguments arguments);
using TestFunction = bool (*)(Interpreter& interpreter, const Value& subject,
                              CallArguments arguments);

// Null: there is no such filter or test.
FilterFunction FindFilter(std::string_view name);
TestFunction FindTest(std::string_view name);

// Look up the filters of texts and numbers, the filters of sequences, and the
// filters that are generators; FindFilter asks all.
FilterFunction FindTextFilter(std::string_view name);
FilterFunction FindSequenceFilter(std::string_view name);
FilterFunction FindLazyFilter(std::string_view name);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_FILTERS_H_
