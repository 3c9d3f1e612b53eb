#ifndef ESPALIER_COORDINATOR_CLI_BENCH_PROMPT_SUITE_H_
#define ESPALIER_COORDINATOR_CLI_BENCH_PROMPT_SUITE_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::cli {

struct SuitePrompt {
  std::string id;
  v1::GenerateRequest request;  // the input and its structured output
};

struct PromptSuite {
  std::string name;
  std::vector<SuitePrompt> prompts = {};  // at least one
};

// One JSON object per line: {"id": .., and one of "chat": TEXT, "prompt": TEXT,
// "messages": [{"role": .., "content": ..}, ..]}. "json_schema" is the text of
// the schema that the answer must match; it may be absent. The id defaults to
// the line's number; empty lines are skipped. INVALID_ARGUMENT names suite,
// line and field.
absl::StatusOr<PromptSuite> ParsePromptSuite(const std::string& name,
                                             const std::string& jsonl);

// The folder of the suites that come with Espalier, installed
// (share/espalier/suites) or in the source tree (deploy/suites), as seen from
// the binary. NOT_FOUND: names both.
absl::StatusOr<std::filesystem::path> FindSuiteDir(
    const std::filesystem::path& executable_dir);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_BENCH_PROMPT_SUITE_H_
