#!/usr/bin/env bash
# Fails if clang-format would change a C++ file; --fix changes them.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(--dry-run --Werror)
[[ ${1:-} != --fix ]] || mode=(-i)
git ls-files -z '*.h' '*.cc' '*.cu' | xargs -0 -n 40 -P "$(nproc)" clang-format "${mode[@]}"
