#include "drafter/heads/head_target.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace espalier::drafter {

absl::StatusOr<HeadTarget> OpenHeadTarget(
    const DrafterOptions& options, std::optional<uint64_t> random_weights) {
  ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(options.target_folder));
  if (config.kind != DecoderKind::kLlama) {
    return absl::UnimplementedError(
        absl::StrCat("a draft head for the architecture of ",
                     options.target_folder, " is not implemented"));
  }
  ASSIGN_OR_RETURN(WeightFiles files,
                   WeightFiles::Open(options.target_folder, random_weights));
  return HeadTarget{.config = std::move(config),
                    .files = std::move(files),
                    .tokenizer_fingerprint = options.tokenizer_fingerprint};
}

void CheckMadeFor(const HeadTarget& target, int64_t vocab_size,
                  JsonFields& fields) {
  if (vocab_size != target.config.vocab_size) {
    fields.Fail("vocab_size",
                absl::StrCat("is ", vocab_size, ", the target's is ",
                             target.config.vocab_size));
  }
  JsonFields ours = fields.Object("espalier");
  const std::string made_with = ours.Text("tokenizer_fingerprint", "");
  const std::string have =
      absl::StrCat(absl::Hex(target.tokenizer_fingerprint, absl::kZeroPad16));
  if (!made_with.empty() && target.tokenizer_fingerprint != 0 &&
      made_with != have) {
    ours.Fail("tokenizer_fingerprint",
              absl::StrCat("is ", made_with, ", the target's is ", have));
  }
  fields.Adopt(ours.status());
}

}  // namespace espalier::drafter
