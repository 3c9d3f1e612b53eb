#!/usr/bin/env bash
# Tau and tokens/s of every verification rule for the default model, on trees that one
# network drafts with every scheme. Further arguments go to `espalier bench`:
#
#   deploy/measure_rules.sh --limit 3 --max-tokens 64 --json
#
# DRAFTER is an EAGLE head of the default model (default: chat), or "lm": the
# target's own first layers.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=deploy/lib/paths.sh
source "$here/lib/paths.sh"
drafter=${DRAFTER:-chat}
branches=${BRANCHES:-2,2,1,1}  # 2 + 4 + 4 + 4 draft samples
readonly nodes=14

config=$(mktemp)
trap 'rm -f "$config"' EXIT

# drafter NAME OPTION=VALUE...: the same network with one scheme.
add_drafter() {
  local type=eagle options=("model=$model/drafters/$drafter") option
  if [[ $drafter == lm ]]; then
    type=lm options=("layers=${LAYERS:-4}")
  fi
  echo "drafters { name: \"$1\" type: \"$type\""
  for option in "${options[@]}" "${@:2}"; do
    echo "  options { key: \"${option%%=*}\" value: \"${option#*=}\" }"
  done
  echo "}"
}

{
  echo "core { draft_timeout_ms: 10000 }"
  echo "verifier { model: \"$model\" }"
  add_drafter coupled
  add_drafter uncoupled noise_scale=none
  add_drafter sampled scheme=sampled "branches=$branches"
  add_drafter greedy1 scheme=greedy+1 "branches=$branches"
  add_drafter distinct scheme=without-replacement "branches=$branches"
} >"$config"

modes=plain,single:coupled/walk,single:uncoupled/walk
for rule in walk {tv,lv,lvseq}-{sps,kseq,rrs,gr} specinfer trv bv gbv; do
  modes+=,single:sampled/$rule
done
for rule in walk {tv,lv,lvseq}-sps trv; do modes+=,single:greedy1/$rule; done
for rule in walk {tv,lv,lvseq}-rrs trv; do modes+=,single:distinct/$rule; done

"$bin/espalier" bench --local --config "$config" --nodes "$nodes" --modes "$modes" \
  --temperature 0.3,0.7,1 "$@"
