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
  [[ -e $tree/build.ninja ]] ||
    options=(-DESPALIER_TESTS=OFF -DESPALIER_NATIVE=ON "${options[@]}")
  ((${#options[@]} == 0)) || cmake --preset release "${options[@]}"
  cmake --build --preset release -j "$(nproc)" --target "${binaries[@]}"
}

prepare() {
  local options=()
  ((!with_libtorch)) || options+=(--with-libtorch)
  "$here/setup.sh" "${options[@]}"
  steps_begin start 2 "$logs"
  step "build" "a compiler that was killed lacked memory: close something and run again" build
  step "local cluster" "stop what uses its ports, or start afresh with deploy/quickstart.sh --stop" \
    "$here/cluster.sh" start
}

# generate OPTION...: prints the answer, or with --json an object with its statistics.
generate() {
  "$bin/espalier" generate --address "$("$here/cluster.sh" address)" \
    --chat "$prompt" --temperature 0 --max-tokens "$max_tokens" "$@"
}

# field NAME: a number or a word of the object on stdin; the name occurs once in it.
field() {
  sed -nE "s/.*\"$1\":\"?([-0-9.a-z]+).*/\1/p"
}

# is A OP B: compares two numbers.
is() {
  awk -v a="$1" -v b="$3" "BEGIN { exit !(a $2 b) }"
}

# why_not WITH: why speculation gained little, by the answer's statistics and the load.
why_not() {
  local load steps rested
  read -r load _ </proc/loadavg
  steps=$(field num_spec_steps <<<"$1") rested=$(field plain_steps <<<"$1")
  if is "$load" ">" "$(nproc)"; then
    printf 'the machine is busy (load %s on %s cores)' "$load" "$(nproc)"
  else
    printf 'no drafter pays for its time on this machine with this text'
  fi
  ! is "$((2 * rested))" ">" "$steps" || printf ': drafting rests'
}

ask() {
  local with without speed plain_speed times won
  printf '\n> %s\n\n' "$prompt"
  generate 2>"$run_dir/answer.err" || {
    cat "$run_dir/answer.err" >&2
    exit 1
  }
  printf '\nThe same again, with and without speculation, to compare ...'
  with=$(generate --json)
  without=$(generate --json --no-speculation)
  [[ ! -t 1 ]] || printf '\r\e[K'
  [[ $(field finish_reason <<<"$with") != length ]] ||
    printf '\n(cut above, at %s tokens)' "$max_tokens"
  speed=$(field tokens_per_s <<<"$with")
  plain_speed=$(field tokens_per_s <<<"$without")
  times=$(awk -v a="$speed" -v b="$plain_speed" 'BEGIN { if (b > 0) printf "%.2f", a / b }')
  printf '\ntau %.2f; %.1f tokens/s, plain decoding %.1f tokens/s (%s times as fast); ' \
    "$(field mean_acceptance_length <<<"$with")" "$speed" "$plain_speed" "${times:-?}"
  won=$(field balance_ms <<<"$with")
  if is "${times:-0}" "<" 1.05; then
    printf '%s; ' "$(why_not "$with")"
  elif is "$won" "<" 0.5; then
    printf 'speculation won nothing: plain decoding met a slower machine; '
  else
    printf 'speculation won %.0f ms; ' "$won"
  fi
  printf 'see it work: %s\n' "$("$here/cluster.sh" page)"
  printf 'HTTP clients: base_url=%s/v1; chat in a browser: %s/#chat\n' \
    "$("$here/cluster.sh" api)" "$("$here/cluster.sh" api)"
}

with_libtorch=0
while [[ ${1:-} == -* ]]; do
  case $1 in
    --with-libtorch) with_libtorch=1 ;;
    --stop) exec "$here/cluster.sh" stop ;;
    *)
      sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p}' "${BASH_SOURCE[0]}"
      [[ $1 == -h || $1 == --help ]] || exit 2
      exit 0
      ;;
  esac
  shift
done
prompt=${*:-$default_prompt}
prepare
ask
