#include "common/chat/jinja/print.h"

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/numbers.h"
#include "common/chat/jinja/object.h"

namespace espalier::jinja {
namespace {

void AppendQuoted(CharactersView text, Characters& out) {
  const auto has = [&](char32_t quote) {
    for (char32_t c : text) {
      if (Bare(c) == quote) return true;
    }
    return false;
  };
  const char32_t quote = has(U'\'') && !has(U'"') ? U'"' : U'\'';
  out.push_back(quote);
  for (char32_t marked : text) {
    const char32_t c = Bare(marked);
    const auto escaped = [&](char32_t letter) {
      out.push_back(Marked(U'\\', marked));
      out.push_back(Marked(letter, marked));
    };
    if (c == quote || c == U'\\') {
      escaped(c);
    } else if (c == U'\n') {
      escaped(U'n');
    } else if (c == U'\r') {
      escaped(U'r');
    } else if (c == U'\t') {
      escaped(U't');
    } else if (!IsPrintable(c)) {
      AppendEscape(marked, out);
    } else {
      out.push_back(marked);
    }
  }
  out.push_back(quote);
}

void AppendSequence(Interpreter& interpreter, const Sequence& sequence,
                    int depth, Characters& out) {
  const bool list = sequence.kind == Sequence::Kind::kList;
  out.push_back(list ? U'[' : U'(');
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) AppendAscii(", ", out);
    AppendRepr(interpreter, sequence.items[i], depth, out);
  }
  if (!list && sequence.items.size() == 1) out.push_back(U',');
  out.push_back(list ? U']' : U')');
}

void AppendDict(Interpreter& interpreter, const Dict& dict, int depth,
                Characters& out) {
  out.push_back(U'{');
  bool first = true;
  for (const auto& [key, value] : dict.items()) {
    if (!first) AppendAscii(", ", out);
    first = false;
    AppendRepr(interpreter, key, depth, out);
    AppendAscii(": ", out);
    AppendRepr(interpreter, value, depth, out);
  }
  out.push_back(U'}');
}

}  // namespace

void AppendAscii(std::string_view ascii, Characters& out) {
  out.append(ascii.begin(), ascii.end());
}

void AppendEscape(char32_t marked, Characters& out) {
  const char32_t c = Bare(marked);
  const int digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  Characters escape = {U'\\', digits == 2 ? U'x' : digits == 4 ? U'u' : U'U'};
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    escape.push_back(U"0123456789abcdef"[(c >> shift) & 15]);
  }
  for (char32_t e : escape) out.push_back(Marked(e, marked));
}

std::string Quoted(CharactersView text) {
  Characters out;
  AppendQuoted(text, out);
  return ToUtf8(out);
}

void AppendRepr(Interpreter& interpreter, const Value& value, int depth,
                Characters& out) {
  if (depth > kMaxValueDepth) throw Error("its values nest too deeply");
  interpreter.budget().Spend(1);
  if (value.IsNone()) {
    AppendAscii("None", out);
  } else if (value.IsUndefined()) {
    AppendAscii("Undefined", out);
  } else if (value.IsBool()) {
    AppendAscii(value.boolean() ? "True" : "False", out);
  } else if (value.IsInt()) {
    AppendAscii(ToString(value.integer()), out);
  } else if (value.IsFloat()) {
    AppendAscii(ToString(value.real()), out);
  } else if (value.IsText()) {
    interpreter.budget().SpendCharacters(value.characters().size());
    if (value.text().markup) AppendAscii("Markup(", out);
    AppendQuoted(value.characters(), out);
    if (value.text().markup) out.push_back(U')');
  } else if (value.IsSequence()) {
    AppendSequence(interpreter, value.sequence(), depth + 1, out);
  } else if (value.IsDict()) {
    AppendDict(interpreter, value.dict(), depth + 1, out);
  } else {
    const Characters repr = value.object()->Repr(interpreter, depth + 1);
    out.append(repr);
  }
}

Characters Str(Interpreter& interpreter, const Value& value) {
  if (value.IsText()) {
    interpreter.budget().SpendCharacters(value.characters().size());
    return value.characters();
  }
  Characters out;
  if (!value.IsUndefined()) AppendRepr(interpreter, value, 0, out);
  return out;
}

}  // namespace espalier::jinja
