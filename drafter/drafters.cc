#include "drafter/drafters.h"

namespace espalier::drafter {

void RegisterDrafters(DrafterRegistry& registry) {
  registry.Add("prompt_lookup", NewPromptLookupDrafter);
  registry.Add("ngram", NewNgramDrafter);
  registry.Add("eagle", NewEagleDrafter);
  registry.Add("dflash", NewDflashDrafter);
  registry.Add("lm", NewLmDrafter);
  registry.Add("grammar", NewGrammarDrafter);
  registry.Add("replay", NewReplayDrafter);
}

}  // namespace espalier::drafter
