#include "coordinator/local/in_process_cluster.h"

#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/local/local_server.h"
#include "coordinator/local/serve_config.h"

namespace espalier::local {
namespace {

// Readable by the user alone; deleted with this object.
class SocketFolder {
 public:
  static absl::StatusOr<std::unique_ptr<SocketFolder>> Create() {
    std::string path =
        (std::filesystem::temp_directory_path() / "espalier-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) {
      return absl::InternalError(absl::StrCat("cannot make a folder ", path));
    }
    return std::unique_ptr<SocketFolder>(new SocketFolder(path));
  }
  ~SocketFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string address() const {
    return absl::StrCat("unix:", path_, "/coordinator.sock");
  }

 private:
  explicit SocketFolder(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

class InProcessCluster final : public cli::LocalCluster {
 public:
  InProcessCluster(std::unique_ptr<SocketFolder> folder,
                   std::unique_ptr<LocalServer> server)
      : folder_(std::move(folder)), server_(std::move(server)) {}
  std::string address() const override { return folder_->address(); }

 private:
  const std::unique_ptr<SocketFolder> folder_;
  const std::unique_ptr<LocalServer> server_;
};

absl::StatusOr<std::unique_ptr<cli::LocalCluster>> Start(
    const cli::LocalClusterOptions& options, const cli::Places& places) {
  ASSIGN_OR_RETURN(auto folder, SocketFolder::Create());
  ASSIGN_OR_RETURN(v1::ServeConfig config, LoadServeConfig(options, places));
  config.clear_admin_listen();
  // Somebody waits.
  if (!config.core().has_warm_up()) config.mutable_core()->set_warm_up(false);
  config.mutable_server()->clear_listen();
  config.mutable_server()->add_listen(folder->address());
  ASSIGN_OR_RETURN(auto server, LocalServer::Start(config));
  server->runner().SetServing(true);
  return std::make_unique<InProcessCluster>(std::move(folder),
                                            std::move(server));
}

}  // namespace

cli::LocalClusterFactory InProcessClusterFactory() { return Start; }

}  // namespace espalier::local
