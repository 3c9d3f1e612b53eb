#!/usr/bin/env python3
"""Writes testdata/language.json: what Jinja2 makes of small templates, by feature.

  pip install jinja2==3.1.6
  python3 make_language_goldens.py
"""
import json
import pathlib

import reference_jinja

GIVEN = {
    "t": "Größe ΑΣ 🌳 it's", "l": [3, 1, 2], "d": {"b": 1, "a": [None, True, 1.0]},
    "people": [{"name": "Ann", "age": 30, "city": "Oslo"},
               {"name": "bob", "age": 5, "city": "Bern"},
               {"name": "Cid", "city": "oslo"}],
    "big": 18446744073709551615, "low": -9223372036854775808, "f": 16777217.5,
    "tool": {"default": 1.0, "minimum": 0.123456789, "maximum": 18446744073709551615,
             "items": {"type": "x"}},
}

FEATURES = {
    "numbers": [
        "{{ big }} {{ low }} {{ f }} {{ 1.0 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.1 + 0.2 }}",
        "{{ tool | tojson }}", "{{ big + 1 }} {{ big * 2 }} {{ low - 1 }}",
        "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}",
        "{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 / 3 }} {{ 1 // 0 }}",
        "{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1e3 }} {{ true + 1 }}",
        "{{ '42.7' | int }} {{ 'x' | int(7) }} {{ 'ff' | int(base=16) }} {{ '1e3' | float }}",
        "{{ 2.5 | round }} {{ 3.14159 | round(2) }} {{ 1.25 | round(1, 'ceil') }} {{ 7 | round }}",
        "{{ 1 == 1.0 }} {{ 1 == true }} {{ 2 ** 53 + 1 == 9007199254740992.0 }} {{ 1 < 1.5 < 2 }}",
    ],
    "printing": [
        "{{ none }} {{ true }} {{ d }} {{ (1,) }} {{ () }} {{ [t, none, 1.0] }}",
        "{{ {'k': undefined_thing} }}{{ undefined_thing }}", "{{ range(3) }} {{ d.items() }}",
        "{{ ['a\\n\\x00\\u200b\"', \"it's\"] }}", "{{ namespace(a=1) }} {{ d.keys() }}",
        "{{ d | tojson(indent=2) }} {{ t | tojson(ensure_ascii=true) }}",
        "{{ {'z': 1, 'a': {'y': 2, 'b': []}} | tojson(sort_keys=true, separators=(',', ':')) }}",
        "{{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ undefined_thing | tojson }}",
    ],
    "texts": [
        "{{ missing | truncate(9) }}|{{ d | truncate(9, true) }}|{{ '1700' | filesizeformat }}",
        "{{ missing | last }}|{{ missing | first }}", "{{ l is filter }}", "{{ d is test }}",
        "{{ t | length }} {{ t[0:5] }} {{ t[::-1] }} {{ t | upper }} {{ t | lower }}",
        "{{ 'ŉ ǆ ß İ' | upper }} {{ 'ΑΣ ΑΣΑ' | lower }} {{ 'ǆx ß' | title }} {{ 'ǆx'.title() }}",
        "{{ t | capitalize }} {{ t.swapcase() }} {{ 'STRASSE ß'.casefold() }}",
        "{{ t[7] }} {{ t[-1] }} {{ t[99] }} {{ t[1:8:3] }} {{ t[5:1:-2] }}",
        "{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }}",
        "{{ 'a-b-c'.rsplit('-', 1) }} {{ 'a\\nb\\r\\nc'.splitlines() }} {{ 'a-b'.partition('-') }}",
        "{{ '\\u00a0 x\\u2003'.strip() }}| {{ 'xxaxx'.strip('x') }} {{ 'abc'.lstrip('ab') }}",
        "{{ 'banana'.count('an') }} {{ 'banana'.find('n', 3) }} {{ 'banana'.rfind('a') }}",
        "{{ 'abc'.startswith(('x', 'ab')) }} {{ 'abc'.endswith('bc') }} {{ 'aXbX' | replace('X', '_') }}",
        "{{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }} {{ '7'.zfill(3) }}",
        "{{ 'a'.center(5, '*') }} {{ 'a'.ljust(3) }}| {{ 'abc'.removeprefix('a') }}",
        "{{ '%s is %05.1f and %-4d|' % ('pi', 3.14159, 42) }} {{ '%(a)s' % {'a': 1} }}",
        "{{ '{} {0}' }} {{ '{:>6.2f}|{!r:^7}'.format(3.14159, 'x') }} {{ '{a[0]}'.format(a=l) }}",
        "{{ 'one two three' | truncate(9) }} {{ 'a\\nb' | indent(2) }} {{ 'a b c' | wordcount }}",
        "{{ '5' * 3 }} {{ 'a' ~ 1 ~ none }} {{ 'a' 'b' }} {{ 'Σ' in t }} {{ 'a' + 1 }}",
    ],
    "scope": [
        "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }};{% endfor %}{{ x }}",
        "{% set first = true %}{% for w in ['a', 'b'] %}{{ 'start ' if first else 'more ' }}{{ w }};{% set first = false %}{% endfor %}",
        "{% set ns = namespace(n=0) %}{% for i in l %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }} {{ ns.missing }}",
        "{% if true %}{% set y = 2 %}{% endif %}{{ y }} {% with z = 3, w = y %}{{ z }}{{ w }}{% endwith %}{{ z }}",
        "{% macro f() %}{{ late }}{% set late = 2 %}{{ late }}{% endmacro %}{% set late = 1 %}{{ f() }}{{ late }}",
        "{% set a, (b, c) = 1, (2, 3) %}{{ a }}{{ b }}{{ c }}{% set q %}x{{ a }}{% endset %}{{ q }}",
        "{% for i in [1, 2] %}{% for j in [1] %}{% set i = 9 %}{{ i }}{% endfor %}{{ i }}{% endfor %}",
        "{% set t.x = 1 %}", "{% set a, b = [1] %}",
    ],
    "loops": [
        "{% for i in l %}{{ i }}{% break %}{% else %}none{% endfor %}",
        "{% for i in l %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% else %}none{% endfor %}",
        "{% for i in l %}{% continue %}{% else %}none{% endfor %}",
        "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
        "{% for x in l if x > 1 %}{{ x }}{{ loop.length }}{{ loop.last }}{% else %}none{% endfor %}",
        "{% for x in [] %}{% else %}empty{% endfor %}{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
        "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}",
        "{% for x in l %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }} {{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }} {% endfor %}",
        "{% for n in [{'v': 1, 'c': [{'v': 2}]}] recursive %}{{ loop.depth }}{{ n.v }}[{{ loop(n.c) if n.c }}]{% endfor %}",
        "{% for c in 'aé🌳' %}{{ c }}.{% endfor %}{% for x in 5 %}{% endfor %}",
    ],
    "macros": [
        "{% macro card(title, mark='*', wide=false) %}({{ mark }}{{ title }}{{ mark }}{{ ' wide' if wide }}){% endmacro %}{{ card('t', wide=true) }}{{ card(title='x', mark='-') }}",
        "{% macro f(a, b=a) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }}{{ f(1, 2, 3, k=4) }}",
        "{% macro f(a) %}{{ a is defined }}{{ caller(a) if caller }}{% endmacro %}{{ f() }}{% call(x) f(5) %}<{{ x }}>{% endcall %}",
        "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}",
        "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }} {{ f.name }} {{ f.arguments }}",
    ],
    "filters": [
        "{{ people | map(attribute='name') | join(', ') }} {{ people | map(attribute='age', default=0) | list }}",
        "{{ people | selectattr('age') | map(attribute='name') | list }} {{ people | rejectattr('age', 'defined') | list | length }}",
        "{{ people | selectattr('name', 'equalto', 'bob') | first }} {{ [1, 2, 3, 4] | select('even') | list }}",
        "{% for g in people | groupby('city') %}{{ g.grouper }}:{{ g.list | length }} {% endfor %}",
        "{{ l | sort }} {{ l | sort(reverse=true) }} {{ people | sort(attribute='name') | map(attribute='name') | list }}",
        "{{ ['b', 'A', 'b'] | unique | list }} {{ l | max }} {{ l | min }} {{ l | sum }} {{ l | last }} {{ [] | first }}",
        "{{ {'b': 1, 'A': 2} | dictsort }} {{ d | items | list }} {{ l | batch(2, 0) | list }} {{ l | slice(2) | list }}",
        "{{ none | default('x') }} {{ nope | default('x') }} {{ '' | default('x', true) }} {{ l | reverse | list }}",
        "{{ '<a> & \"b\"' | e }} {{ ('<b>' | safe) + '<i>' }} {{ 'a b/ä' | urlencode }} {{ l | join('-') }}",
        "{{ l | length }} {{ l | list }} {{ 'abc' | list }} {{ -3 | abs }} {{ 1536 | filesizeformat }}",
        "{% filter upper %}a{{ t }}{% endfilter %}{% set x | trim %} y {% endset %}{{ x }}|",
        "{{ 1 | nope }}", "{% if false %}{{ 1 | nope }}{% endif %}ok", "{{ 1 if true else 2 | nope }}",
        "{{ l | map('nope') | list }}", "{{ l | length(3) }}", "{{ l | map('string') | length }}",
    ],
    "tests": [
        "{{ d is mapping }} {{ l is sequence }} {{ t is string }} {{ t is iterable }} {{ 5 is number }} {{ true is number }} {{ 1 is integer }} {{ 1.0 is float }}",
        "{{ x is defined }} {{ x is undefined }} {{ none is none }} {{ 4 is divisibleby 2 }} {{ 3 is odd }} {{ 2 is in [1, 2] }} {{ 1 is not none }}",
        "{{ true is boolean }} {{ true is true }} {{ 1 is true }} {{ d.items() is iterable }} {{ d.items() is sequence }} {{ range is callable }}",
        "{{ 'A' is upper }} {{ 'a' is lower }} {{ 1 is eq 1 }} {{ 'trim' is filter }} {{ 1 is sameas 1 }} {{ 2 is gt 1 }} {{ 1 is nope }}",
    ],
    "members": [
        "{{ tool.items is mapping }} {{ tool['items'] }} {{ d.get('a') }} {{ d.get('x', 3) }} {{ d['x'] }} {{ d.x }}",
        "{{ l[-1] }} {{ l[5] }} {{ l[0:2] }} {{ l[::-1] }} {{ l.index(2) }} {{ l.count(3) }} {{ l.0 }}",
        "{{ d.x.y }}", "{{ nope.y }}", "{{ nope() }}", "{{ d.pop('a') }}", "{{ l.append(1) }}", "{{ none.x }}|{{ none.x.y }}",
        "{{ t.__class__ }}|{{ t.__class__.x }}", "{{ t() }}", "{{ 'a' < 1 }}", "{{ l + (1,) }}", "{{ 'x' + none }}",
        "{{ dict(a=1, **{'b': 2}) }} {% set j = joiner() %}{{ j() }}{{ j() }} {{ cycler(1, 2).next() }}", "{{ range(200000) }}",
    ],
    "white_space": [
        "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a  {%- if true -%}  b  {%- endif -%}  c",
        "a\n  {%+ if true +%}\n b{% endif %}\n", "x\n {# note #}\ny {#- note -#} z\n{# n #}", "{{ 1 -}}  \n {{- 2 }}\n{{ 3 }}\n",
        "{% raw %}{{ x }} {% if %}{% endraw %}\n{%- raw -%} y {%- endraw -%} z", "a\r\nb\rc\n\n", "  {% set x = 1 %}  \n  {{ x }}",
    ],
    "errors": [
        "{{ 'open", "{% if x %}", "{{ 1 + }}", "{% what %}", "{% for %}{% endfor %}", "{{ ]", "{% endif %}", "{# open",
        "{% break %}", "{% macro f() %}{% break %}{% endmacro %}", "{{ (1, 2 }}", "{{ f(a=1, 2) }}", "{% set 1 = 2 %}",
        "{{ a is b is c }}", "{{ 1 2 }}", "{% for x in l %}{{ x }}", "{{ raise_exception('no ' ~ t) }}", "{{ 'a' if }}",
        "{% macro f(a=1, b) %}{% endmacro %}", "{{ 'x'.join([1]) }}", "{{ '{'.format() }}", "{{ '%d' % 'a' }}",
    ],
}


def main() -> None:
    cases = []
    for feature, sources in FEATURES.items():
        for source in sources:
            text, raised = reference_jinja.render(source, {}, GIVEN)
            case = {"feature": feature, "source": source}
            case |= {"text": text} if text is not None else {"raises": raised or ""}
            cases.append(case)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    path = pathlib.Path(__file__).with_name("testdata") / "language.json"
    path.write_text('{"given": ' + json.dumps(GIVEN, ensure_ascii=False)
                    + ', "cases": [\n' + lines + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
