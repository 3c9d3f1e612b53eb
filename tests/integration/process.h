#ifndef ESPALIER_TESTS_INTEGRATION_PROCESS_H_
#define ESPALIER_TESTS_INTEGRATION_PROCESS_H_

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace espalier::testing {

// A child process with its output in a file. Killed when it goes out of scope.
class Process {
 public:
  // `argv[0]` is the path of the program.
  Process(std::vector<std::string> argv, std::string log_path);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Signal(int signal) const;
  // Waits for the end. The exit status, or 128 + the signal that killed it.
  int Wait();
  // SIGKILL and Wait.
  void Kill();
  bool running();
  std::string Log() const;

 private:
  const std::string log_path_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool reaped_ = false;
};

// How a process ended: its exit status, and what it wrote to stdout and stderr.
struct Finished {
  int status = 0;
  std::string output;
};
Finished RunToEnd(std::vector<std::string> argv, const std::string& log_path);

// Returns a new folder with a short path: a Unix socket's has at most 107
// bytes.
std::string NewFolder();

// A folder that goes with the test.
class ScratchFolder {
 public:
  ScratchFolder() : path_(NewFolder()) {}
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }

 private:
  const std::string path_;
};

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& text);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_INTEGRATION_PROCESS_H_
