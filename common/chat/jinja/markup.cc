#include "common/chat/jinja/markup.h"

#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

std::string_view EntityOf(char32_t c) {
  switch (c) {
    case U'&':
      return "&amp;";
    case U'<':
      return "&lt;";
    case U'>':
      return "&gt;";
    case U'\'':
      return "&#39;";
    case U'"':
      return "&#34;";
    default:
      return {};
  }
}

}  // namespace

Characters Escape(Interpreter& interpreter, CharactersView text) {
  interpreter.budget().SpendCharacters(text.size());
  Characters out;
  out.reserve(text.size());
  for (char32_t marked : text) {
    const std::string_view entity = EntityOf(Bare(marked));
    if (entity.empty()) out.push_back(marked);
    for (char c : entity)
      out.push_back(Marked(static_cast<char32_t>(c), marked));
  }
  return out;
}

Characters EscapeUnlessMarkup(Interpreter& interpreter, const Value& value) {
  Characters text = Str(interpreter, value);
  return value.IsMarkup() ? text : Escape(interpreter, text);
}

}  // namespace espalier::jinja
