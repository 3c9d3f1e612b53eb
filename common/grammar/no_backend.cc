#include "common/grammar/grammar.h"

namespace espalier::grammar {

bool HasBackend() { return false; }

std::unique_ptr<Backend> NewBackend(Vocabulary) { return nullptr; }

}  // namespace espalier::grammar
