#ifndef ESPALIER_TESTS_CLI_CLI_FIXTURE_H_
#define ESPALIER_TESTS_CLI_CLI_FIXTURE_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <stop_token>
#include <string>
#include <vector>

#include "coordinator/cli/context.h"
#include "coordinator/cli/local_cluster.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_inference.h"

namespace espalier::cli {

struct CliResult {
  int code = 0;
  std::string out;
  std::string err;
};

// Runs `espalier` in this process against a FakeInference.
class CliFixture : public ::testing::Test {
 protected:
  CliFixture();
  ~CliFixture() override;

  // `args` as typed after "espalier"; `in` is standard input.
  CliResult Run(const std::vector<std::string>& args,
                const std::string& in = "");

  // Writes a file in the test's folder; returns its path.
  std::string Write(const std::string& name, const std::string& content);

  std::filesystem::path folder_;
  testing::FakeInference server_;
  std::stop_source interrupt_;
  std::function<std::stop_token()> next_interrupt_ = nullptr;
  std::function<LineEnd(const std::string& prompt, std::string& line)>
      read_line_ = nullptr;
  std::ostringstream out_;  // of the Run in progress, or of the last one
  Screen out_screen_;
  std::vector<LocalClusterOptions> local_clusters_;  // that were asked for
};

}  // namespace espalier::cli

#endif  // ESPALIER_TESTS_CLI_CLI_FIXTURE_H_
