#!/usr/bin/env python3
"""Makes man pages and bash completion of what the programs' --help prints.

    make_documents.py BIN OUT

BIN: the folder of the programs. OUT gets a folder for each package, laid out as
/usr/share: OUT/espalier/man/man1/espalier-generate.1.gz, ...
"""

import dataclasses
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

SERVICES = {"espalier-coordinator": "espalier", "espalier-verifier": "verifier",
            "espalier-drafter": "drafter"}
# "  --max-tokens N   tokens to generate": a flag, its value, its help. The help may
# begin on the next line and have several.
FLAG = re.compile(r"^  (--[a-z][a-z0-9-]*)(?: (\S+(?: \S+)*?))?(?:  +(\S.*))?$")
# "[--model PATH]" in the synopsis of a command that parses it itself.
SYNOPSIS_FLAG = re.compile(r"(--[a-z][a-z0-9-]*)(?: ([^\s\])|]+))?")
PATHS = re.compile(r"FILE|PATH|FOLDER|DIR")


@dataclasses.dataclass
class Flag:
    name: str
    value: str  # empty: a switch
    help: str


@dataclasses.dataclass
class Page:
    """What one --help says. `title`: "espalier bench forward"."""
    title: str
    section: int
    summary: str
    synopsis: list
    description: list  # paragraphs, each a list of lines
    flags: list


def output(*argv: object) -> str:
    """What a program prints, with the names of places in place of this machine's."""
    places = {"XDG_RUNTIME_DIR": "$XDG_RUNTIME_DIR", "ESPALIER_CACHE": "$ESPALIER_CACHE"}
    text = subprocess.run([str(word) for word in argv], check=True, text=True,
                          capture_output=True, env=os.environ | places).stdout
    return text.replace(f"$XDG_RUNTIME_DIR/espalier-{os.getuid()}/",
                        "$XDG_RUNTIME_DIR/espalier-$UID/")


def commands(program: str | pathlib.Path) -> list[tuple[Any, Any]]:
    """[(name, summary)] of `espalier help`."""
    found = []
    inside = False
    for line in output(program, "help").splitlines():
        if line == "Commands:":
            inside = True
        elif inside and not line:
            break
        elif inside:
            found.append((line[2:18].strip(), line[18:].strip()))
    return found


def pages_of_commands(program: str | pathlib.Path) -> dict[str, Any]:
    """name -> page, for every command and every experiment of `espalier lab`."""
    pages = {}
    for name, summary in commands(program):
        if name != "version":
            page = parse(f"espalier {name}", 1, summary, output(program, *name.split(), "--help"))
            pages[name] = page
            for part in page.description:
                if part[0].endswith("Experiments:"):
                    listed = [line.split(maxsplit=1) for line in part[1:]]
                    pages |= {f"{name} {word}": parse(f"espalier {name} {word}", 1, what,
                                                      output(program, name, word, "--help"))
                              for word, what in listed}
    return pages


def take_flags(lines: list[str]) -> tuple[list[Flag], list[str]]:
    """(flags, the lines that describe none)."""
    flags, others = [], []
    for line in lines:
        if match := FLAG.match(line):
            flags.append(Flag(match[1], match[2] or "", match[3] or ""))
        elif flags and line.startswith(" " * 20):
            flags[-1].help = f"{flags[-1].help} {line.strip()}".strip()
        elif line != "Flags:":
            others.append(line)
    return flags, others


def paragraphs(lines: list[str]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [paragraph for paragraph in found if paragraph]


def parse(title: str, section: int, summary: str, text: str) -> Page:
    """The page of what --help printed."""
    flags, others = take_flags(text.splitlines())
    parts = paragraphs(others)
    at = next(i for i, part in enumerate(parts) if part[0].lower().startswith("usage: "))
    synopsis = [re.sub(r"^[Uu]sage: ", "", parts[at][0]), *parts[at][1:]]
    known = {flag.name for flag in flags}
    for name, value in SYNOPSIS_FLAG.findall(" ".join(synopsis)):
        if name not in known:
            known.add(name)
            flags.append(Flag(name, value, ""))
    return Page(title, section, summary, synopsis, parts[:at] + parts[at + 1:], flags)


def roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def man_page(page: Any, version: str, others: Sequence[tuple[str, int]]) -> str:
    """The page in man(7)'s macros. `others`: what SEE ALSO names."""
    name = page.title.replace(" ", "-")
    lines = [f'.TH {roff(name.upper())} {page.section} "" "espalier {version}" "Espalier"',
             ".SH NAME", f"{roff(name)} \\- {roff(page.summary)}", ".SH SYNOPSIS", ".nf",
             *map(roff, page.synopsis), ".fi", ".SH DESCRIPTION"]
    for paragraph in page.description:
        filled = not any(line.startswith(" ") for line in paragraph)
        lines += [".PP", *([] if filled else [".nf"]), *map(roff, paragraph),
                  *([] if filled else [".fi"])]
    if page.flags:
        lines.append(".SH OPTIONS")
    for flag in page.flags:
        value = f" \\fI{roff(flag.value)}\\fR" if flag.value else ""
        lines += [".TP", f"\\fB{roff(flag.name)}\\fR{value}"]
        if flag.help:
            lines.append(roff(flag.help))
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{roff(other)}\\fR({section})"
                                        for other, section in others if other != name)]
    return "\n".join(lines) + "\n"


COMPLETION = """\
# bash completion of @PROGRAM@, made from its --help.
_@FUNCTION@() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local commands="@COMMANDS@" command=${COMP_WORDS[1]:-}
  local next='' flags='' valued='' files=''
  case "$command ${COMP_WORDS[2]:-}" in
  @LONG_NAMES@) ((COMP_CWORD > 2)) && command+=" ${COMP_WORDS[2]}" ;;
  esac
  case $command in
@CASES@
  esac
  COMPREPLY=()
  if ((COMP_CWORD == 1)) && [[ $commands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
  elif [[ " $files " == *" $before "* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  elif [[ " $valued " == *" $before "* ]]; then
    return
  elif ((COMP_CWORD == 2)); then
    mapfile -t COMPREPLY < <(compgen -W "$next $flags" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word")
  fi
}
complete -o default -F _@FUNCTION@ @PROGRAM@
"""


def completion_case(pattern: str, page: Any, following: Sequence[str] = ()) -> str:
    """The variables of the function above for one command."""
    valued = [flag.name for flag in page.flags if flag.value]
    files = [flag.name for flag in page.flags if PATHS.search(flag.value)]
    flags = sorted({flag.name for flag in page.flags} | {"--help"})
    return (f'  {pattern})\n    flags="{" ".join(flags)}"\n    valued="{" ".join(valued)}"\n'
            f'    files="{" ".join(files)}"\n    next="{" ".join(following)}"\n    ;;')


def completion(program: str, pages: dict[str, Page]) -> str:
    """`pages`: command -> page; a program without commands has one, "*"."""
    first_words = sorted({name.split()[0] for name in pages if name != "*"})
    long_names = [name for name in pages if " " in name]
    cases = []
    for name, page in pages.items():
        following = [other.split()[1] for other in long_names if other.split()[0] == name]
        cases.append(completion_case(name if name == "*" else f'"{name}"', page, following))
    if first_words:
        cases.append(f'  help)\n    next="{" ".join(first_words)}"\n    ;;')
    text = COMPLETION
    for key, value in {
            "PROGRAM": program, "FUNCTION": program.replace("-", "_"),
            "LONG_NAMES": " | ".join(f'"{name}"' for name in long_names) or '"- -"',
            "CASES": "\n".join(cases),
            "COMMANDS": " ".join(first_words + ["help", "version"] if first_words else []),
    }.items():
        text = text.replace(f"@{key}@", value)
    return text


def overview(program: str | pathlib.Path, pages: dict[str, Page]) -> Page:
    """The page of `espalier help`: the commands as its options."""
    flags = [Flag(name, "", page.summary) for name, page in pages.items()]
    end = output(program, "help").split("\n\n")[-1].splitlines()
    return Page("espalier", 1, "lossless speculative decoding",
                ["espalier COMMAND [FLAGS]"],
                [end, ["Each command has a page, such as espalier-generate(1)."]], flags)


def write_man(folder: pathlib.Path, page: Any, version: str,
              others: Sequence[tuple[str, int]]) -> None:
    target = folder / f"man/man{page.section}"
    target.mkdir(parents=True, exist_ok=True)
    path = target / f"{page.title.replace(' ', '-')}.{page.section}.gz"
    # Without a time, so that equal pages are equal files.
    path.write_bytes(gzip.compress(man_page(page, version, others).encode(), 9, mtime=0))


def write_completion(folder: pathlib.Path, program: str, pages: dict[str, Page]) -> None:
    target = folder / "bash-completion/completions"
    target.mkdir(parents=True, exist_ok=True)
    (target / program).write_text(completion(program, pages))


def main() -> None:
    bin_folder, out = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    shutil.rmtree(out, ignore_errors=True)
    command = bin_folder / "espalier"
    version = output(command, "--version").split()[1]
    pages = pages_of_commands(command)
    others = [("espalier", 1), *((service, 8) for service in SERVICES)]
    for page in [overview(command, pages), *pages.values()]:
        write_man(out / "espalier", page, version, others)
    write_completion(out / "espalier", "espalier", pages)
    for service, package in SERVICES.items():
        text = output(bin_folder / service, "--help")
        purpose = text.splitlines()[0].split(": ", 1)[1].rstrip(".")
        page = parse(service, 8, purpose, text)
        write_man(out / package, page, version, others)
        write_completion(out / package, service, {"*": page})


if __name__ == "__main__":
    main()
