#!/usr/bin/env bash
# Builds and runs tests, from a fresh clone.
#
#   tests/run.sh             all tests of the preset release
#   tests/run.sh --quick     its unit tests alone, with --no-emulation; fetches no
#                            more than the model
#   tests/run.sh --asan      clang's AddressSanitizer and UndefinedBehaviorSanitizer,
#                            thread-safety analysis, fuzz targets under libFuzzer
#   tests/run.sh --tsan      ThreadSanitizer
#   tests/run.sh --nightly   planted faults, mutants and long tests; --nightly=N: those
#                            of every ten with the number N
#   tests/run.sh WORD...     the tests of an area, as in `tests/run.sh control`, or of a
#                            test file, as in `tests/run.sh drafter_policy_test`
#
#   --nvcc           compiles the kernels for GPUs too, and those for CPUs unlike
#                    this one
#   --no-emulation   leaves out the emulated GPU, where the tree is new
#   --werror         warnings are errors, in the preset release
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p}' "${BASH_SOURCE[0]}"
  exit "$1"
}

preset=release
set_up=(--tests)
left_out=(long nightly)
nightly=
torch=ON
nvcc=OFF
native=ON
emulation=ON
werror=OFF
quick=
words=()
for flag in "$@"; do
  case $flag in
    --quick) quick=1 torch=OFF emulation=OFF set_up=(--unit-tests) ;;
    --asan) preset=asan torch=OFF set_up+=(--clang) left_out+=(exact) ;;
    --tsan) preset=tsan torch=OFF set_up+=(--clang) left_out+=(exact) ;;
    --nightly) nightly=nightly ;;
    --nightly=[0-9]) nightly=nightly-${flag#*=} ;;
    --nvcc) nvcc=ON native=OFF set_up+=(--nvcc) ;;
    --no-emulation) emulation=OFF ;;
    --werror) werror=ON ;;
    -h | --help) usage 0 ;;
    -*) usage 2 >&2 ;;
    *) words+=("$flag") ;;
  esac
done
# An area is built as the tree was configured last; a new tree has unit tests.
if [[ ${words[*]} ]]; then
  torch=OFF set_up=(--unit-tests "${set_up[@]:1}")
fi
readonly build=$repo/build/$preset log=$repo/build/$preset/tests.log
! grep -qs '^ESPALIER_EMULATION:BOOL=ON' "$build/CMakeCache.txt" || emulation=ON

# ThreadSanitizer of clang 14 does not start on kernels that place mappings more
# randomly than it knows.
run() {
  if [[ $preset == tsan ]] && setarch "$(uname -m)" -R true 2>/dev/null; then
    setarch "$(uname -m)" -R "$@"
  else
    "$@"
  fi
}

# The first line: what will be done, and how long two quiet cores take that have
# built nothing yet.
announce() {
  case $preset$quick${nightly:+nightly}${words[*]:+words} in
    release) echo "Builds (8 minutes) and runs (11) all tests of the preset release but nightly ones." ;;
    release1) echo "Builds (6 minutes) and runs (2) the unit tests." ;;
    asan) echo "Builds and runs tests under AddressSanitizer, and fuzz targets: hours for all." ;;
    tsan) echo "Builds and runs tests under ThreadSanitizer: hours for all." ;;
    *nightly) echo "Planted faults, mutants and long tests ($nightly): hours for all." ;;
    *) echo "Builds and runs the tests of ${words[*]}." ;;
  esac
}

configure() {
  local libtorch=${ESPALIER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/espalier}/libtorch
  local options=(-DESPALIER_TESTS=ON -DESPALIER_EMULATION="$emulation"
    -DESPALIER_NATIVE="$native" -DESPALIER_NVCC="$nvcc"
    -DESPALIER_TEST_TORCH="$torch" -DESPALIER_LIBTORCH:PATH="$libtorch")
  # Sanitizers make GCC warn where nothing is wrong.
  [[ $preset != release ]] || options+=(-DESPALIER_WERROR="$werror")
  run cmake --preset "$preset" "${options[@]}"
}

# run_tests TARGETS SELECTION...
run_tests() {
  local targets=$1 status=0
  shift
  # shellcheck disable=SC2086  # words
  run cmake --build "$build" -j "$(nproc)" --target $targets
  # Many tests wait, for a lost peer or a deadline: two more than there are cores.
  # On CI's machine, which others share, a test that fails is run once more; the
  # log has both.
  run ctest --test-dir "$build" -j "$(($(nproc) + 2))" --no-tests=error --output-on-failure \
    ${CI:+--repeat until-pass:2} "$@" |
    tee "$log" || status=$?
  return "$status"
}

run_words() {
  local targets selection filter
  { read -r targets && read -r selection && read -r filter; } < <(
    python3 tests/find_tests.py "$build" "${words[@]}" || echo)
  [[ $targets ]] || exit 2
  [[ -z $filter ]] || export GTEST_FILTER=$filter
  # shellcheck disable=SC2086  # words
  run_tests "$targets" $selection
}

# The last lines: what was left out and why, and what was skipped.
print_left_out() {
  [[ -z $nightly ]] || return 0
  [[ $emulation == ON ]] || echo "not run: tests on the emulated GPU"
  [[ -z ${words[*]} ]] || return 0
  if [[ $quick ]]; then
    echo "not run: all but unit tests (tests/run.sh runs them)"
  else
    echo "not run: long tests, mutants, planted faults (tests/run.sh --nightly)"
  fi
  [[ $preset == release ]] ||
    echo "not run: the enumeration of distributions, which takes sanitizers half an hour"
  awk '/: Skipped$/ { getline; print "not run: " $0 }
       /^skipped: / { sub(/^skipped: /, ""); print "not run: " $0 }
       / \.\.\. skipped / { sub(/ \.\.\. skipped /, ": "); print "not run: " $0 }' \
    "$build/Testing/Temporary/LastTest.log" | sort | uniq -c
}

announce
cd "$repo"
# The presets share what compiles alike, wherever the clone lies.
export CCACHE_BASEDIR=$repo CCACHE_NOHASHDIR=1
if [[ -z ${words[*]} ]] || ! grep -qs '^ESPALIER_TESTS:BOOL=ON' "$build/CMakeCache.txt"; then
  deploy/setup.sh "${set_up[@]}"
  configure
fi
status=0
if [[ ${words[*]} ]]; then
  run_words || status=$?
elif [[ $nightly ]]; then
  run_tests "test-$nightly" --label-regex "^$nightly\$" || status=$?
elif [[ $quick ]]; then
  run_tests test-unit --label-regex '^unit$' || status=$?
else
  run_tests all --label-exclude "^($(IFS='|' && echo "${left_out[*]}"))\$" || status=$?
fi
print_left_out
exit "$status"
