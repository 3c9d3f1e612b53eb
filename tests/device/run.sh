#!/usr/bin/env bash
# Runs on a machine with a GPU what tests/device/pack.sh packed: from the root of the
# repository, with .device/ there.
#
#   tests/device/run.sh right [--emulated] [SECONDS]   is everything right there?
#   tests/device/run.sh fast  [--emulated] [SECONDS]   how fast is a pass?
#   tests/device/run.sh tune  [--emulated] [SECONDS]   which forms of kernels are for it?
#   tests/device/run.sh round [--emulated] [SECONDS]   how fast is a round, end to end?
#
# Each ends with a table, and writes $OUT/SUITE.json ($OUT: default .device/out), within
# SECONDS (default 570). --emulated takes the same way on the emulated device, in tiny shapes:
# it shows that the scripts work, and no time means anything.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
suite=${1:-} device=cuda
if [[ ${2:-} == --emulated ]]; then device=emulated; shift; fi
seconds=${2:-570}
[[ $seconds =~ ^[0-9]+$ ]] || suite=
[[ $suite == right || $suite == fast || $suite == tune || $suite == round ]] ||
  { sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p}' "${BASH_SOURCE[0]}" >&2; exit 2; }

export OUT=${OUT:-$PWD/.device/out}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$OUT"
python3 -m tarfile -e .device/programs.tar.xz "$work"
export PATH=$work/bin:$PATH
export ESPALIER_TEST_DEVICE=$device

python3 tests/device/suites.py "$suite" --device "$device" --work "$work" --out "$OUT" \
  --seconds "$seconds"
