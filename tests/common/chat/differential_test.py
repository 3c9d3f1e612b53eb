#!/usr/bin/env python3
"""Compares our rendering of chat templates with Jinja2's.

  differential_test.py RENDERER TEMPLATES [CONVERSATIONS [SNIPPETS [SEED]]]

RENDERER is render_templates, TEMPLATES the folder of published templates that
`deploy/setup.sh --tests` fetches. Each template renders CONVERSATIONS random
conversations; SNIPPETS random templates come after them. Where Jinja2 raises,
we refuse; otherwise the texts are equal. Prints how many agree.
"""
import json
import pathlib
import random
import subprocess
import sys
from typing import Any

SKIPPED = 77

try:
    import jinja2
    import reference_jinja
    from random_templates import Snippets, Values
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(SKIPPED)

# What Python prints with an address, and what its random numbers choose.
NOT_COMPARED = (" at 0x", "<generator", "<built-in method", "<bound method")


def known_difference(text: str | None, raised: str | None, answer: Any) -> str | None:
    """Why the two need not agree; None: they must."""
    if text is not None and any(part in text for part in NOT_COMPARED):
        return "prints an address"
    error = answer.get("error", "")
    if "more than 127 bits" in error or "beyond 64 bits" in error:
        return "an integer that we refuse"
    if "is not supported" in error or "precision too big" in error:
        return "refused by name"
    if "too much text or work" in error:
        return "the budget"
    return None


class Renderer:
    def __init__(self, program: str | pathlib.Path) -> None:
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            encoding="utf-8", env={"TZ": "UTC"})

    def __call__(self, source: str, trusted: Any, given: dict[str, Any]) -> Any:
        request = {"source": source, "trusted": trusted, "input": given}
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the renderer ended on {json.dumps(request)}"
        return json.loads(line)


class Count:
    def __init__(self, what: str) -> None:
        self.what, self.all, self.same, self.known = what, 0, 0, 0
        self.failed: list[tuple[str, str, dict[str, Any], str | None, str | None, Any]] = []

    def add(self, name: str, source: str, given: dict[str, Any], text: str | None,
            raised: str | None, answer: Any) -> None:
        self.all += 1
        ours = answer.get("text")
        if ours == text and (ours is None) == (raised is not None):
            self.same += 1
        elif known_difference(text, raised, answer):
            self.known += 1
        else:
            self.failed.append((name, source, given, text, raised, answer))

    def report(self) -> None:
        print(f"{self.what}: {self.same} of {self.all} agree, {self.known} are "
              f"refused by name or print an address, {len(self.failed)} differ")
        for name, source, given, text, raised, answer in self.failed[:10]:
            print(f"\n--- {name}\n{source if len(source) < 2000 else ''}\n"
                  f"given:  {json.dumps(given, ensure_ascii=False)}\n"
                  f"Jinja2: {raised if text is None else repr(text)}\n"
                  f"ours:   {answer.get('error') or repr(answer.get('text'))}")


def compare_templates(render: Renderer, folder: pathlib.Path, per_template: int,
                      rng: random.Random) -> Count:
    count = Count("conversations")
    paths = sorted(folder.glob("*.jinja"))
    conversations = [Values(rng).conversation() for _ in range(per_template)]
    for path in paths:
        source = path.read_text(encoding="utf-8")
        for index, given in enumerate(conversations):
            text, raised = reference_jinja.render(
                source, reference_jinja.TRUSTED, given)
            answer = render(source, reference_jinja.TRUSTED, given)
            count.add(f"{path.name} {index}", source, given, text, raised, answer)
    return count


def compare_snippets(render: Renderer, number: int, rng: random.Random) -> Count:
    count = Count("snippets")
    for index in range(number):
        source, given = Snippets(rng).template()
        text, raised = reference_jinja.render(source, {}, given)
        answer = render(source, {}, given)
        count.add(f"snippet {index}", source, given, text, raised, answer)
    return count


def main() -> int:
    if not jinja2.__version__.startswith("3.1."):
        print(f"skipped: jinja2 {jinja2.__version__}, not 3.1")
        return SKIPPED
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    per_template, snippets, seed = (
        [int(a) for a in sys.argv[3:]] + [20, 3000, 1][len(sys.argv) - 3:])
    rng = random.Random(seed)
    render = Renderer(program)
    counts = [compare_snippets(render, snippets, rng)]
    if folder.is_dir():
        counts.append(compare_templates(render, folder, per_template, rng))
    else:
        print(f"no templates in {folder}: deploy/setup.sh --tests fetches them")
    for count in counts:
        count.report()
        # Most of them render: a test of refusals only would be none.
        assert count.same > count.all // 2
    return 1 if any(count.failed for count in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
