#!/usr/bin/env bash
# The sources of xgrammar that the build compiles, from the pinned package, to the
# folder $1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../deploy" && pwd)
# shellcheck source=deploy/versions.env
source "$here/versions.env"
# shellcheck source=deploy/lib/paths.sh
source "$here/lib/paths.sh"
# shellcheck source=deploy/lib/wheels.sh
source "$here/lib/wheels.sh"
# shellcheck source=deploy/lib/xgrammar.sh
source "$here/lib/xgrammar.sh"

[[ ! -s /run/secrets/ca.crt ]] || export PIP_CERT=/run/secrets/ca.crt
venv_is_ready || make_venv
xgrammar_is_ready || make_xgrammar
cp -r "$xgrammar" "$1"
