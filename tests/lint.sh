#!/usr/bin/env bash
# mypy over all Python, then clang-tidy over the product's files that differ from a
# commit (default: the last one that is an hour older than HEAD), with the commands of
# the preset dev. Needs deploy/setup.sh --clang.
#
#   tests/lint.sh [COMMIT]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/lib/paths.sh
source deploy/lib/paths.sh
git ls-files -z '*.py' | xargs -0 "$mypy/bin/mypy"

before=$(($(git log -1 --format=%ct) - 3600))
# A clone may have one commit.
commit=${1:-$(git rev-list -1 --before="$before" HEAD)}
git rev-parse --quiet --verify "$commit^{commit}" >/dev/null || commit=HEAD
mapfile -t files < <(git diff --name-only --diff-filter=d "$commit" -- \
  'common/*.cc' 'drafter/*.cc' 'lab/*.cc' 'verifier/*.cc' 'coordinator/*.cc')
((${#files[@]} > 0)) || {
  echo "clang-tidy: no product file differs from $commit"
  exit 0
}
cmake --preset dev -B build/lint -DESPALIER_TESTS=OFF >/dev/null
cmake --build build/lint --target generated_headers
# Files of other builds (libtorch, xgrammar's, instruction sets) have no command.
printf '%s\n' "${files[@]}" | while read -r file; do
  ! grep -q "\"file\": \"$PWD/$file\"" build/lint/compile_commands.json || echo "$file"
done | xargs -r -n 1 -P "$(nproc)" clang-tidy --quiet -p build/lint
