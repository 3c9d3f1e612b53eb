#!/usr/bin/env bash
# mypy over all Python, then clang-tidy, with its thread-safety analysis, over the
# product's files that differ from a commit (default: the last one that is an hour older
# than HEAD), and over those that take locks and that no test of CI's sanitizers builds.
# With the commands of the preset dev. Needs deploy/setup.sh --clang.
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
cmake --preset dev -B build/lint -DESPALIER_TESTS=OFF >/dev/null
cmake --build build/lint --target generated_headers
{
  git diff --name-only --diff-filter=d "$commit" -- \
    'common/*.cc' 'drafter/*.cc' 'lab/*.cc' 'verifier/*.cc' 'coordinator/*.cc'
  git grep -lE 'GUARDED_BY|LOCKS_REQUIRED' -- common/grammar drafter verifier/engine/grammar_masks.h |
    sed 's/\.h$/.cc/'
} | sort -u | while read -r file; do
  # Files of other builds (libtorch, xgrammar's, instruction sets) have no command.
  ! grep -q "\"file\": \"$PWD/$file\"" build/lint/compile_commands.json || echo "$file"
done | xargs -r -n 1 -P "$(nproc)" clang-tidy --quiet -p build/lint
