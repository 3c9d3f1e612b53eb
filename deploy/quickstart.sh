#!/usr/bin/env bash
# From a fresh clone to a streamed answer.
#
#   deploy/quickstart.sh [--with-libtorch] [PROMPT]
#       sets up, builds, starts the local cluster, generates
#   deploy/quickstart.sh --stop
#       stops the cluster
#
# --with-libtorch fetches libtorch too, and builds the backend `aten`.
#
# Can be interrupted and run again. The cluster keeps running; the next call
# uses it, or restarts it when the build has changed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=deploy/lib/paths.sh
source "$here/lib/paths.sh"
# shellcheck source=deploy/lib/steps.sh
source "$here/lib/steps.sh"

readonly default_prompt="Write a short letter to a friend about a walk in the mountains."
# Enough for most answers, and at most a minute where decoding is slow.
readonly max_tokens=400
readonly binaries=(espalier espalier-coordinator espalier-drafter espalier-verifier)

# Ninja detects changed sources and CMake files. The tests stay on if tests/run.sh
# has switched them on.
build() {
  local tree=$repo/build/release
  cd "$repo"
  local options=()
  ((!with_libtorch)) || options+=(-DESPALIER_TORCH=ON -DESPALIER_LIBTORCH:PATH="$cache/libtorch")
  [[ -e $tree/build.ninja ]] || options+=(-DESPALIER_TESTS=OFF)
  ((${#options[@]} == 0)) || cmake --preset release "${options[@]}"
  cmake --build --preset release -j "$(nproc)" --target "${binaries[@]}"
}

prepare() {
  local options=()
  ((!with_libtorch)) || options=(--with-libtorch)
  "$here/setup.sh" "${options[@]}"
  steps_begin start 2 "$logs"
  step "build" "a compiler that was killed lacked memory: close something and run again" build
  step "local cluster" "stop what uses its ports, or start afresh with deploy/quickstart.sh --stop" \
    "$here/cluster.sh" start
}

# generate STATISTICS OPTION...: prints the answer; the statistics go to the file.
generate() {
  local statistics=$1
  shift
  "$bin/espalier" generate --address "$("$here/cluster.sh" address)" \
    --chat "$prompt" --temperature 0 --max-tokens "$max_tokens" "$@" 2>"$statistics" || {
    cat "$statistics" >&2
    exit 1
  }
}

# field NAME: a number from the line of statistics on stdin.
field() {
  case $1 in
    tau) sed -nE 's/^tau ([0-9.]+) .*/\1/p' ;;
    speed) sed -nE 's/.* ([0-9.]+) tokens\/s .*/\1/p' ;;
  esac
}

ask() {
  local with without speed plain_speed
  with=$(mktemp "$run_dir/with.XXXXXX")
  without=$(mktemp "$run_dir/without.XXXXXX")
  printf '\n> %s\n\n' "$prompt"
  generate "$with"
  ! grep -q '(length)' "$with" || printf '\n(cut here, at %s tokens)\n' "$max_tokens"
  printf '\nNow without speculation, to compare ...'
  generate "$without" --no-speculation >/dev/null
  [[ ! -t 1 ]] || printf '\r\e[K'
  speed=$(field speed <"$with")
  plain_speed=$(field speed <"$without")
  printf '\ntau %s; %s tokens/s, plain decoding %s tokens/s (%s times as fast); see it work: %s\n' \
    "$(field tau <"$with")" "$speed" "$plain_speed" \
    "$(awk -v a="$speed" -v b="$plain_speed" 'BEGIN { if (b > 0) printf "%.2f", a / b; else printf "?" }')" \
    "$("$here/cluster.sh" page)"
  rm -f "$with" "$without"
}

with_libtorch=0
case ${1:-} in
  --with-libtorch)
    with_libtorch=1
    shift
    ;;
  --stop) exec "$here/cluster.sh" stop ;;
  -h | --help | --*)
    sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p}' "${BASH_SOURCE[0]}"
    [[ $1 == -h || $1 == --help ]] || exit 2
    exit 0
    ;;
esac
prompt=${*:-$default_prompt}
prepare
ask
