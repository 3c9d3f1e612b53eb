#!/usr/bin/env bash
# fetch_gateway.sh protocol|gateway FOLDER: the gateways' protocol, or the gateway, from
# pinned wheels.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../deploy" && pwd)
# shellcheck source=deploy/versions.env
source "$here/versions.env"
# shellcheck source=deploy/lib/paths.sh
source "$here/lib/paths.sh"
# shellcheck source=deploy/lib/wheels.sh
source "$here/lib/wheels.sh"
# shellcheck source=deploy/lib/gateway.sh
source "$here/lib/gateway.sh"

[[ ! -s /run/secrets/ca.crt ]] || export PIP_CERT=/run/secrets/ca.crt
step_progress=$(mktemp)  # it is removed
case $1 in
  protocol)
    venv_is_ready || make_venv
    smg_proto=$2
    make_smg_proto
    rm -rf "$venv" "$wheels"
    ;;
  gateway)
    gateway=$2
    make_gateway
    ;;
  *) exit 2 ;;
esac
