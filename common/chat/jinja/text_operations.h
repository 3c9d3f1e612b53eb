#ifndef ESPALIER_COMMON_CHAT_JINJA_TEXT_OPERATIONS_H_
#define ESPALIER_COMMON_CHAT_JINJA_TEXT_OPERATIONS_H_

#include <optional>
#include <vector>

#include "common/chat/jinja/interpreter.h"
#include "common/chat/jinja/value.h"

// Methods of texts and filters share these functions, which do what Python's
// methods of these names do.
namespace espalier::jinja {

struct Sides {
  bool left = true;
  bool right = true;
};
// `characters`: null: white space.
CharactersView Strip(CharactersView text,
                     const std::optional<Characters>& characters, Sides sides);

// Negative `most`: as often as it is found.
Characters Replace(Interpreter& interpreter, CharactersView text,
                   CharactersView old, CharactersView replacement, Int most);

// `separator`: null: runs of white space.
std::vector<CharactersView> Split(Interpreter& interpreter, CharactersView text,
                                  const std::optional<Characters>& separator,
                                  Int most);
std::vector<CharactersView> SplitFromRight(
    Interpreter& interpreter, CharactersView text,
    const std::optional<Characters>& separator, Int most);
std::vector<CharactersView> SplitLines(CharactersView text, bool keep_ends);

// Fills up to `width` on both sides; Python puts the odd one left or right.
Characters Center(Interpreter& interpreter, CharactersView text, Int width,
                  char32_t fill);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_TEXT_OPERATIONS_H_
