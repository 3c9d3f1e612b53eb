#ifndef ESPALIER_DRAFTER_ENGINE_DRAFTER_FACTORIES_H_
#define ESPALIER_DRAFTER_ENGINE_DRAFTER_FACTORIES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/registry.h"
#include "drafter/engine/drafter.h"

namespace espalier::drafter {

// The arguments of a drafter's factory.
struct DrafterOptions {
  std::map<std::string, std::string> options = {};  // as written in the config
  std::string target_folder = {};  // heads read embedding and output rows there
  int64_t vocab_size = 0;          // of the target
  // The fingerprint of the target's tokenizer. 0: not known; it is then not
  // compared with the drafter's own.
  uint64_t tokenizer_fingerprint = 0;
};

// Options of the drafters that count tokens: width (most children of a node, 0:
// no limit) and noise_scale (how much the drafter's log-probabilities err, see
// gumbel_coupling.h).

// Looks up the end of the text in the text itself. Options: min_match and
// max_match (tokens of the end that must recur), max_matches (occurrences
// counted), window (recent tokens that are indexed, rounded up to a power of
// 2).
absl::StatusOr<std::unique_ptr<Drafter>> NewPromptLookupDrafter(
    const DrafterOptions& options);

// Looks up the end of the text in the text itself, and in earlier answers of
// the tenant, too. Options: those of prompt lookup but min_match;
// earlier_answers (whether answers are kept for later requests of the same
// cache salt; default false), max_answer_tokens (that are kept of a tenant,
// rounded up to a power of 2), max_tenants, file (where kept answers are read
// from at the start and written to at the end; default: they are not saved).
absl::StatusOr<std::unique_ptr<Drafter>> NewSuffixDrafter(
    const DrafterOptions& options);

// Learns from the target's own rows which tokens follow two others (token
// recycling). Options: table_mib (memory for a tenant's successors),
// max_tenants, prompt_rows (rows of a prompt that the target has to rank,
// which costs their products with the vocabulary).
absl::StatusOr<std::unique_ptr<Drafter>> NewRecycleDrafter(
    const DrafterOptions& options);

// Looks up the last tokens in a table made beforehand (ngram_table.h). Options:
// table (path of the file, required), and those of sampled_tree.h: it can
// sample its trees, for rules that read draft distributions.
absl::StatusOr<std::unique_ptr<Drafter>> NewNgramDrafter(
    const DrafterOptions& options);

// Makes an EAGLE head. Options: model (the head's folder, required), and those
// of heads/tree_grower.h and heads/head_runtime.h.
absl::StatusOr<std::unique_ptr<Drafter>> NewEagleDrafter(
    const DrafterOptions& options);

// Makes a language model with the target's tokenizer, or the target's own first
// layers. Options: model (its folder; absent: the target's), layers (use only
// this many first layers, then the model's norm and output rows; required
// without model), kv_tokens (K/V cache of all sequences together, in tokens;
// default 32768), and those of heads/tree_grower.h and heads/head_runtime.h.
absl::StatusOr<std::unique_ptr<Drafter>> NewLmDrafter(
    const DrafterOptions& options);

// Makes a DFlash block drafter. Options: model (the drafter's folder,
// required), mode (ddtree, or chain: the likeliest path alone), width
// (candidates per position), noise_scale, and those of heads/head_runtime.h.
absl::StatusOr<std::unique_ptr<Drafter>> NewDflashDrafter(
    const DrafterOptions& options);

// Drafts the text that a request's grammar forces: keys, punctuation and the
// end of JSON, say. It needs the target's tokenizer. Options: max_tokens (of a
// draft). UNIMPLEMENTED: this build has no structured output.
absl::StatusOr<std::unique_ptr<Drafter>> NewGrammarDrafter(
    const DrafterOptions& options);

// Drafts for measurements: trees of another drafter, relabelled with known
// text. Options: drafter (its type, required; its options are named
// drafter.NAME), texts (path of a file, required: in each line the token ids of
// a prompt and of what follows it), rates (by depth, separated by commas: how
// often a tree has the text's token if it has all before it; default 0.8),
// seed. After another text the trees stay as they are.
absl::StatusOr<std::unique_ptr<Drafter>> NewReplayDrafter(
    const DrafterOptions& options);

// The list of drafter types.
using DrafterRegistry = Registry<Drafter, const DrafterOptions&>;

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_ENGINE_DRAFTER_FACTORIES_H_
