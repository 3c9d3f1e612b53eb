#!/usr/bin/env bash
# libtorch with its CUDA backend and the CUDA libraries that it loads, from pinned
# wheels, to the folder $1 (several GB).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../deploy" && pwd)
# shellcheck source=deploy/versions.env
source "$here/versions.env"
# shellcheck source=deploy/lib/paths.sh
source "$here/lib/paths.sh"
# shellcheck source=deploy/lib/wheels.sh
source "$here/lib/wheels.sh"
# shellcheck source=deploy/lib/libtorch.sh
source "$here/lib/libtorch.sh"

[[ ! -s /run/secrets/ca.crt ]] || export PIP_CERT=/run/secrets/ca.crt
step_progress=/dev/null
venv_is_ready || make_venv
libtorch_is_ready || make_libtorch
libtorch_cuda_is_ready || add_libtorch_cuda
cp -r "$libtorch" "$1"

# What the backend names as needed: cuBLAS, cuDNN, NCCL and so on, in the versions that
# the wheel of torch asks for.
mapfile -t wanted < <(unzip -p "$(wheel_path torch "$ESPALIER_TORCH_VERSION")" '*/METADATA' |
  sed -nE 's/^Requires-Dist: ((nvidia-|cuda-toolkit)[^;]*).*/\1/p')
all=$cache/cuda-wheels
pip download --only-binary=:all: -d "$all" "${wanted[@]}"
for wheel in "$all"/nvidia_*.whl; do
  unzip -qoj "$wheel" 'nvidia/*/lib/*.so*' -d "$1/lib"
done
