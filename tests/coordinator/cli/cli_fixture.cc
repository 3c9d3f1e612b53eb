#include "tests/coordinator/cli/cli_fixture.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/base/check.h"
#include "coordinator/cli/app.h"
#include "coordinator/cli/client_commands.h"

namespace espalier::cli {
namespace {

std::filesystem::path MakeTempFolder() {
  std::string path =
      (std::filesystem::temp_directory_path() / "espalier-XXXXXX").string();
  ESPALIER_CHECK(mkdtemp(path.data()) != nullptr);
  return path;
}

class FakeCluster final : public LocalCluster {
 public:
  explicit FakeCluster(std::string address) : address_(std::move(address)) {}
  std::string address() const override { return address_; }

 private:
  std::string address_;
};

}  // namespace

CliFixture::CliFixture()
    : folder_(MakeTempFolder()), server_((folder_ / "server.sock").string()) {}

CliFixture::~CliFixture() { std::filesystem::remove_all(folder_); }

CliResult CliFixture::Run(const std::vector<std::string>& args,
                          const std::string& in) {
  std::istringstream in_stream(in);
  out_.str("");
  std::ostringstream err;
  Context context{.in = in_stream,
                  .out = out_,
                  .err = err,
                  .places = {.address = server_.address(),
                             .model = folder_ / "no-model",
                             .executable_dir = folder_},
                  .interrupt = interrupt_.get_token(),
                  .out_screen = out_screen_,
                  .next_interrupt = next_interrupt_,
                  .read_line = read_line_};
  auto factory =
      [this](const LocalClusterOptions& options,
             const Places&) -> absl::StatusOr<std::unique_ptr<LocalCluster>> {
    local_clusters_.push_back(options);
    return std::make_unique<FakeCluster>(server_.address());
  };
  CliResult result;
  result.code = RunApp(ClientCommands(factory), context, args);
  result.out = out_.str();
  result.err = err.str();
  return result;
}

std::string CliFixture::Write(const std::string& name,
                              const std::string& content) {
  const std::filesystem::path path = folder_ / name;
  std::ofstream(path, std::ios::binary) << content;
  return path.string();
}

}  // namespace espalier::cli
