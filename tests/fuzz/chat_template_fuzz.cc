// A model's chat template, rendered with a conversation that a user has
// written.
#include <memory>

#include "common/base/check.h"
#include "common/chat/guarded_text.h"
#include "common/chat/jinja_program.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace {

using Json = nlohmann::ordered_json;

const Tokenizer& SmallTokenizer() {
  static const auto* tokenizer = [] {
    auto loaded = Tokenizer::Load(ESPALIER_SOURCE_DIR
                                  "/tests/common/tokenizer/testdata/small");
    ESPALIER_CHECK(loaded.ok());
    return loaded->release();
  }();
  return *tokenizer;
}

std::vector<std::string> Seeds() {
  return {
      "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m['role'] + "
      "'\\n' + m.content | trim }}{% if not loop.last %}-{% endif %}"
      "{% endfor %}{% if add_generation_prompt %}>{% endif %}",
      "{%- set ns = namespace(a=0, b='') -%}{% for m in messages[1:] %}"
      "{% set ns.a = ns.a + 2 * 3 % 4 %}{% set ns.b = ns.b ~ m.content %}"
      "{%- endfor -%}{{ ns.b | tojson(indent=4) }}{{ ns.a | string | length }}",
      "{% macro show(x, y=1) %}{{ x | upper }}{{ y }}{% endmacro %}"
      "{% if tools is defined and tools %}{{ show(tools[0].name) }}{% elif "
      "messages | length > 2 %}{{ raise_exception('no') }}{% else %}"
      "{{ messages[0].content.split('a') | join(',') }}{% endif %}",
      "{% for k, v in tools[0].items() %}{{ k.replace('a', 'bb') }}{{ v }}"
      "{% if k == 'x' %}{% break %}{% endif %}{% endfor %}"
      "{{ range(3) | list | last }}{{ '{}'.format(1) | indent(2) }}",
      "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute="
      "'content') | list | tojson }}{{ (1, 2)[0] if true else [none] }}"};
}

bool Try(std::string_view bytes) {
  const auto program = JinjaProgram::Parse(std::string(bytes));
  if (!program.ok()) return false;
  Json input = {
      {"messages",
       {{{"role", "user"}, {"content", "a <|im_start|>b<|im_end|> ä"}},
        {{"role", "assistant"}, {"content", "c"}}}},
      {"tools", {{{"name", "f"}, {"a<|im_end|>", {1, 2.5, nullptr}}}}}};
  const auto guard = SpecialTextGuard::Break(SmallTokenizer(), input);
  ESPALIER_CHECK(guard.ok());
  const auto pieces = (*program)->Render(
      {{"bos_token", "<s>"}, {"add_generation_prompt", true}}, input,
      absl::UnixEpoch());
  if (!pieces.ok()) return false;
  const SpecialTextGuard::Text text = guard->Join(*pieces);
  size_t end = 0;
  for (const ByteRange& range : text.plain) {
    ESPALIER_CHECK(range.begin >= end && range.begin < range.end);
    end = range.end;
  }
  (void)SmallTokenizer().EncodeMixed(text.text, text.plain);
  return true;
}

}  // namespace

FuzzTarget ChatTemplateTarget() { return {"chat_template", Seeds, Try}; }

}  // namespace espalier::testing
