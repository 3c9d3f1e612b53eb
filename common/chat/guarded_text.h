#ifndef ESPALIER_COMMON_CHAT_GUARDED_TEXT_H_
#define ESPALIER_COMMON_CHAT_GUARDED_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/chat/jinja_program.h"
#include "common/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"

namespace espalier {

// Keeps special tokens that users spell apart from those of a template,
// whatever the template does to the text: it may cut it, join it or print it as
// JSON, and the engine's marks do not survive all of that. A character that is
// in no text is put into each spelled token before rendering and taken out
// after it. A template that looks for special tokens in what users say finds
// none.
class SpecialTextGuard {
 public:
  // Guards the texts and keys of `input`.
  // RESOURCE_EXHAUSTED: every character for this purpose is in the input.
  static absl::StatusOr<SpecialTextGuard> Break(const Tokenizer& tokenizer,
                                                nlohmann::ordered_json& input);

  struct Text {
    std::string text;
    std::vector<ByteRange> plain;  // for Tokenizer::EncodeMixed
  };
  // What was rendered from the guarded input.
  Text Join(absl::Span<const JinjaProgram::Piece> pieces) const;

 private:
  std::string mark_;          // empty: nothing was broken
  std::string escaped_mark_;  // as ASCII JSON has it
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_CHAT_GUARDED_TEXT_H_
