#ifndef ESPALIER_COORDINATOR_API_STOP_TEXT_H_
#define ESPALIER_COORDINATOR_API_STOP_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/speculation/types.h"
#include "common/tokenizer/incremental_detokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "coordinator/session/request.h"

namespace espalier::coordinator {

// The text of one stream of tokens, up to its first stop string. Text that may
// be the beginning of a stop string is held back until that is known, so no
// caller sees a character too many. The stop string that ends first counts; of
// those that end together, the longest. What is found does not depend on how
// the text is divided into tokens. Copyable; borrows the tokenizer.
class StopText final : public OutputText {
 public:
  struct Options {
    const Tokenizer* tokenizer = nullptr;
    std::vector<std::string> stop_strings = {};  // valid UTF-8, none empty
    bool include_stop_string = false;            // in the text
    bool show_special = false;                   // special tokens have a text
    int64_t min_tokens = 0;  // a stop string that they complete does not count
  };

  explicit StopText(Options options)
      : options_(std::move(options)),
        detokenizer_(options_.tokenizer,
                     {.skip_special = !options_.show_special}) {}

  std::string Push(TokenId token) override;
  std::string Flush() override;
  const std::optional<std::string>& stop_string() const override {
    return found_;
  }

 private:
  std::string Scan(const std::string& piece);
  const std::string* StopAt(size_t end) const;
  size_t HeldBytes() const;

  Options options_;
  IncrementalDetokenizer detokenizer_;
  int64_t num_tokens_ = 0;
  std::string held_;  // a proper prefix of a stop string, between calls
  std::optional<std::string> found_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_STOP_TEXT_H_
