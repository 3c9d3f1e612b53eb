#!/usr/bin/env bash
# Fetches the default model into /models/default, with its drafters in
# /models/default/drafters, and draws the secrets that the coordinator shows the
# verifier and the drafters. Does nothing when they are there. The image `models` runs it.
set -euo pipefail

for token in /secrets/verifier.token /secrets/http.token /drafter-secrets/drafter.token; do
  [[ ! -s $token ]] || continue
  (umask 077 && od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$token.part")
  mv "$token.part" "$token"
done

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../deploy" && pwd)
export ESPALIER_CACHE=/models/.work TMPDIR=/models/.work/tmp
mkdir -p "$TMPDIR"
# shellcheck source=deploy/versions.env
source "$here/versions.env"
# shellcheck source=deploy/lib/paths.sh
source "$here/lib/paths.sh"
# shellcheck source=deploy/lib/steps.sh
source "$here/lib/steps.sh"
# shellcheck source=deploy/lib/wheels.sh
source "$here/lib/wheels.sh"
# shellcheck source=deploy/lib/default_model.sh
source "$here/lib/default_model.sh"
model=/models/default

# The certificates of a network that looks into TLS, if the host has given any.
[[ ! -s /run/ca.crt ]] || export PIP_CERT=/run/ca.crt

readonly download_hint="check the network; behind a proxy that looks into TLS set ESPALIER_CA_FILE"
steps_begin models 3 "$ESPALIER_CACHE/logs"
if default_model_is_ready; then
  step_done "Python environment"
  step_done "default model"
else
  step "Python environment" "$download_hint" make_venv
  step "default model" "$download_hint" make_default_model
fi
if drafters_are_ready; then
  step_done "its drafters"
else
  step "its drafters" "see the log" place_drafters
fi
rm -rf "$ESPALIER_CACHE"
