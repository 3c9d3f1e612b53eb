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

bool RunsOnDevices(absl::string_view type) {
  return type == "eagle" || type == "dflash" || type == "lm";
}

}  // namespace espalier::drafter
