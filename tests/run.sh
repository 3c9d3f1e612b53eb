#!/usr/bin/env bash
# Builds and runs the tests, from a fresh clone.
#
#   tests/run.sh            preset release
#   tests/run.sh --asan     AddressSanitizer and UndefinedBehaviorSanitizer
#   tests/run.sh --tsan     ThreadSanitizer, without libtorch
#   tests/run.sh --clang    the fuzz targets under libFuzzer, with thread-safety analysis
#   tests/run.sh --nvcc     compiles the kernels for GPUs too
#   tests/run.sh --werror   warnings are errors, in the preset release
#   tests/run.sh --long     also the tests with the label `long`
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p}' "${BASH_SOURCE[0]}"
  exit "$1"
}

presets=()
set_up=(--tests)
left_out=long
nvcc=OFF
werror=OFF
for flag in "$@"; do
  case $flag in
    --asan | --tsan) presets+=("${flag#--}") ;;
    --clang) presets+=(clang) set_up+=(--clang) ;;
    --nvcc) nvcc=ON set_up+=(--nvcc) ;;
    --werror) werror=ON ;;
    --long) left_out=none ;;
    -h | --help) usage 0 ;;
    *) usage 2 >&2 ;;
  esac
done
((${#presets[@]} > 0)) || presets=(release)

# ThreadSanitizer of GCC 12 and 13 does not start on kernels that place
# mappings more randomly than it knows.
run() {
  if [[ $preset == tsan ]] && setarch "$(uname -m)" -R true 2>/dev/null; then
    setarch "$(uname -m)" -R "$@"
  else
    "$@"
  fi
}

# Sanitized programs are slow enough for a time limit of a test to pass where
# others use the machine; what a sanitizer finds, it finds again.
tries() {
  [[ $preset != asan && $preset != tsan ]] || echo --repeat until-pass:2
}

# Says at the end what did not run and why: a skipped test has not passed.
print_skipped() {
  local log=build/$preset/Testing/Temporary/LastTest.log
  awk '/: Skipped$/ { getline; print "not run: " $0 }
       /^skipped: / { sub(/^skipped: /, ""); print "not run: " $0 }
       / \.\.\. skipped / { sub(/ \.\.\. skipped /, ": "); print "not run: " $0 }' "$log" |
    sort | uniq -c
}

# Sanitizers look at the rules in their other tests: the enumeration of all
# distributions would take AddressSanitizer half an hour, and it has one thread.
excluded() {
  case $preset in
    asan | tsan) echo "$left_out|exact" ;;
    *) echo "$left_out" ;;
  esac
}

test_preset() {
  local libtorch=${ESPALIER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/espalier}/libtorch torch=ON
  local selected=(--label-exclude "^($(excluded))\$") options=()
  [[ $preset != tsan && $preset != clang ]] || torch=OFF
  # The build preset `clang` has no other programs.
  [[ $preset != clang ]] || selected=(--label-regex '^fuzz$')
  # Sanitizers make GCC warn where nothing is wrong.
  [[ $preset != release ]] || options=(-DESPALIER_WERROR="$werror")
  run cmake --preset "$preset" -DESPALIER_TESTS=ON -DESPALIER_NVCC="$nvcc" \
    -DESPALIER_TORCH="$torch" -DESPALIER_LIBTORCH:PATH="$libtorch" "${options[@]}"
  run cmake --build --preset "$preset" -j "$(nproc)"
  local status=0
  # shellcheck disable=SC2046  # words
  run ctest --test-dir "build/$preset" -j2 --no-tests=error --output-on-failure \
    $(tries) "${selected[@]}" || status=$?
  print_skipped
  return "$status"
}

# The presets share what compiles alike, wherever the clone lies.
export CCACHE_BASEDIR=$repo CCACHE_NOHASHDIR=1

cd "$repo"
deploy/setup.sh "${set_up[@]}"
for preset in "${presets[@]}"; do
  printf '\n== preset %s\n' "$preset"
  test_preset
done
