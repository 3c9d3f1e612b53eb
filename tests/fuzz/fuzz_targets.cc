#include "tests/fuzz/fuzz_targets.h"

#include <cstdio>
#include <cstdlib>

namespace espalier::testing {

FuzzTarget CertificatesTarget();
FuzzTarget ChatTemplateTarget();
FuzzTarget ConnectionBytesTarget();
FuzzTarget DraftStreamTarget();
FuzzTarget GenerateRequestTarget();
FuzzTarget GgufTarget();
FuzzTarget GrammarTarget();
FuzzTarget HttpBodyTarget();
FuzzTarget JsonTarget();
FuzzTarget MessageBytesTarget();
FuzzTarget ModelConfigTarget();
FuzzTarget NgramTableTarget();
FuzzTarget OutputParserTarget();
FuzzTarget PeerAnswerTarget();
FuzzTarget RoleFileTarget();
FuzzTarget SafetensorsTarget();
FuzzTarget SavedAnswersTarget();
FuzzTarget ServiceConfigTarget();
FuzzTarget StoredFeaturesTarget();
FuzzTarget TokenTreeTarget();
FuzzTarget TokenizerTarget();
FuzzTarget VerifyStreamTarget();

std::vector<FuzzTarget> FuzzTargets() {
  return {
#ifdef ESPALIER_FUZZ_CHAT_TEMPLATE
      ChatTemplateTarget(),
#endif
#ifdef ESPALIER_FUZZ_GRAMMAR
      GrammarTarget(),
#endif
#ifdef ESPALIER_FUZZ_STORED_FEATURES
      StoredFeaturesTarget(),
#endif
      CertificatesTarget(),   ConnectionBytesTarget(),
      DraftStreamTarget(),    GenerateRequestTarget(),
      GgufTarget(),           HttpBodyTarget(),
      JsonTarget(),           MessageBytesTarget(),
      ModelConfigTarget(),    NgramTableTarget(),
      OutputParserTarget(),   PeerAnswerTarget(),
      RoleFileTarget(),       SafetensorsTarget(),
      SavedAnswersTarget(),   ServiceConfigTarget(),
      TokenTreeTarget(),      TokenizerTarget(),
      VerifyStreamTarget(),
  };
}

FuzzTarget FindFuzzTarget(std::string_view name) {
  for (const FuzzTarget& target : FuzzTargets()) {
    if (target.name == name) return target;
  }
  std::fprintf(stderr, "There is no fuzz target \"%.*s\", but these:\n",
               static_cast<int>(name.size()), name.data());
  for (const FuzzTarget& target : FuzzTargets()) {
    std::fprintf(stderr, "  %s\n", target.name.data());
  }
  std::exit(2);
}

}  // namespace espalier::testing
