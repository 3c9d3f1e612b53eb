#!/usr/bin/env bash
# What compiles kernels for GPUs, from pinned wheels, to the folder $1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../deploy" && pwd)
# shellcheck source=deploy/versions.env
source "$here/versions.env"
# shellcheck source=deploy/lib/paths.sh
source "$here/lib/paths.sh"
# shellcheck source=deploy/lib/wheels.sh
source "$here/lib/wheels.sh"
# shellcheck source=deploy/lib/nvcc.sh
source "$here/lib/nvcc.sh"

[[ ! -s /run/secrets/ca.crt ]] || export PIP_CERT=/run/secrets/ca.crt
step_progress=$(mktemp)  # it is removed
venv_is_ready || make_venv
nvcc_is_ready || make_nvcc
cp -r "$nvcc_tools" "$1"
