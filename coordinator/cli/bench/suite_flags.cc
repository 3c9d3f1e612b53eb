#include "coordinator/cli/bench/suite_flags.h"

#include <filesystem>

#include "common/base/status_macros.h"
#include "coordinator/cli/input_file.h"

namespace espalier::cli {

void SuiteFlags::AddTo(FlagSet& flags) {
  flags.Add({"--suite", "A,B", "default chat,math,code,summarise"}, &suites_);
  flags.Add({"--prompts", "FILE",
             "prompts of your own, JSON lines, instead:\n"
             "{\"id\": .., \"chat\": ..}, or \"prompt\" "
             "or \"messages\""},
            &prompts_file_);
  flags.Add({"--suite-dir", "DIR", "where the suites are"}, &suite_dir_);
}

absl::StatusOr<std::vector<PromptSuite>> SuiteFlags::Load(
    Context& context) const {
  std::vector<PromptSuite> suites;
  if (prompts_file_) {
    ASSIGN_OR_RETURN(const std::string jsonl,
                     ReadInput(*prompts_file_, context.in));
    const std::string name =
        std::filesystem::path(*prompts_file_).stem().string();
    ASSIGN_OR_RETURN(suites.emplace_back(), ParsePromptSuite(name, jsonl));
    return suites;
  }
  std::filesystem::path folder = suite_dir_.value_or("");
  if (!suite_dir_) {
    ASSIGN_OR_RETURN(folder, FindSuiteDir(context.places.executable_dir));
  }
  for (const std::string& name : suites_) {
    const std::filesystem::path file = folder / (name + ".jsonl");
    ASSIGN_OR_RETURN(const std::string jsonl,
                     ReadInput(file.string(), context.in));
    ASSIGN_OR_RETURN(suites.emplace_back(), ParsePromptSuite(name, jsonl));
  }
  return suites;
}

}  // namespace espalier::cli
