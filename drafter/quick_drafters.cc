#include "drafter/quick_drafters.h"

namespace espalier::drafter {

void RegisterQuickDrafters(DrafterRegistry& registry) {
  registry.Add("prompt_lookup", NewPromptLookupDrafter);
  registry.Add("suffix", NewSuffixDrafter);
  registry.Add("recycle", NewRecycleDrafter);
  registry.Add("ngram", NewNgramDrafter);
  registry.Add("grammar", NewGrammarDrafter);
}

}  // namespace espalier::drafter
