// A model's chat template, rendered with a conversation that a user has
// written.
#include <memory>

#include "common/base/check.h"
#include "common/base/utf8.h"
#include "common/chat/jinja_program.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/testing/source_path.h"

namespace espalier::testing {
namespace chat_template_fuzz {

using Json = nlohmann::ordered_json;

const Tokenizer& SmallTokenizer() {
  static const auto* tokenizer = [] {
    auto loaded =
        Tokenizer::Load(SourcePath("tests/common/tokenizer/testdata/small"));
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
      "'content') | list | tojson }}{{ (1, 2)[0] if true else [none] }}",
      // Tags, white space and literals.
      "{%- raw -%} {{ x }} {%- endraw +%}\n{#- note #}\n{{ 0x1F + 1_000 - 1e3 "
      "}}{{ 'a\\n\\x41\\u00e4' \"b\" }}{% generation %}g{% endgeneration %}",
      "{% for a, (b, c) in [(1, (2, 3))] recursive %}{{ loop.index }}{{ a ~ b "
      "}}"
      "{% else %}-{% endfor %}{% set n %}t{% endset %}{{ n is string }}",
      "{% macro m(x, y=2) %}{{ caller(x) }}{{ kwargs }}{{ varargs }}"
      "{% endmacro %}{% call(u) m(1, z=3) %}{{ u }}{% endcall %}",
      "{% with q = 'ab' %}{{ '%5.1f|%-4s' % (1.25, q) }}{{ "
      "'{:>8,}'.format(99999"
      ") }}{{ q[::-1] }}{% filter upper %}x{% endfilter %}{% endwith %}",
      "{{ messages | groupby('role') }}{{ [3, 1] | sort | batch(2) | list }}"
      "{{ messages[0].content.partition('b') }}{{ tools | tojson(indent=1) }}"};
}

bool Try(std::string_view bytes) {
  const auto program = JinjaProgram::Parse(std::string(bytes));
  if (!program.ok()) return false;
  const Json input = {
      {"messages",
       {{{"role", "user"}, {"content", "a <|im_start|>b<|im_end|> ä"}},
        {{"role", "assistant"}, {"content", "c"}}}},
      {"tools", {{{"name", "f"}, {"a<|im_end|>", {1, 2.5, nullptr}}}}}};
  const auto rendered = (*program)->Render(
      {{"bos_token", "<s>"}, {"add_generation_prompt", true}}, input,
      absl::UnixEpoch());
  if (!rendered.ok()) return false;
  ESPALIER_CHECK(RepairUtf8(rendered->text) == rendered->text);
  size_t end = 0;
  for (const ByteRange& range : rendered->from_input) {
    ESPALIER_CHECK(range.begin >= end && range.begin < range.end);
    end = range.end;
  }
  ESPALIER_CHECK(end <= rendered->text.size());
  (void)SmallTokenizer().EncodeMixed(rendered->text, rendered->from_input);
  return true;
}

}  // namespace chat_template_fuzz

FuzzTarget ChatTemplateTarget() {
  return {"chat_template", chat_template_fuzz::Seeds, chat_template_fuzz::Try};
}

}  // namespace espalier::testing
