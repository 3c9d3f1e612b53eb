#include "tests/integration/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "common/base/check.h"

namespace espalier::testing {

Process::Process(std::vector<std::string> argv, std::string log_path)
    : log_path_(std::move(log_path)) {
  std::vector<char*> args;
  for (std::string& arg : argv) args.push_back(arg.data());
  args.push_back(nullptr);
  pid_ = fork();
  ESPALIER_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // no orphans when the test dies
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int log =
        open(log_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execv(args[0], args.data());
    _exit(127);
  }
}

Process::~Process() {
  if (!reaped_) Kill();
}

void Process::Signal(int signal) const { kill(pid_, signal); }

int Process::Wait() {
  if (!reaped_) {
    ESPALIER_CHECK(waitpid(pid_, &status_, 0) == pid_);
    reaped_ = true;
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

void Process::Kill() {
  Signal(SIGKILL);
  Wait();
}

bool Process::running() {
  if (!reaped_ && waitpid(pid_, &status_, WNOHANG) == pid_) reaped_ = true;
  return !reaped_;
}

std::string Process::Log() const { return ReadFile(log_path_); }

Finished RunToEnd(std::vector<std::string> argv, const std::string& log_path) {
  unlink(log_path.c_str());
  Process process(std::move(argv), log_path);
  const int status = process.Wait();
  return {status, process.Log()};
}

std::string NewFolder() {
  char path[] = "/tmp/espalier-XXXXXX";
  ESPALIER_CHECK(mkdtemp(path) != nullptr);
  return path;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  ESPALIER_CHECK(file.good());
}

}  // namespace espalier::testing
