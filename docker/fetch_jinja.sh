#!/usr/bin/env bash
# The Jinja engine that the build compiles, from the pinned package, to the folder
# $1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../deploy" && pwd)
# shellcheck source=deploy/versions.env
source "$here/versions.env"
# shellcheck source=deploy/lib/paths.sh
source "$here/lib/paths.sh"
# shellcheck source=deploy/lib/steps.sh
source "$here/lib/steps.sh"
# shellcheck source=deploy/lib/wheels.sh
source "$here/lib/wheels.sh"
# shellcheck source=deploy/lib/jinja.sh
source "$here/lib/jinja.sh"

[[ ! -s /run/secrets/ca.crt ]] || export PIP_CERT=/run/secrets/ca.crt
readonly download_hint="check the network; behind a proxy that looks into TLS set ESPALIER_CA_FILE"
steps_begin jinja 2 "$cache/logs"
venv_is_ready || step "Python environment" "$download_hint" make_venv
jinja_is_ready || step "engine for chat templates" "$download_hint" make_jinja
cp -r "$jinja" "$1"
