#!/usr/bin/env bash
# Makes .device/ (git-ignored): programs and libraries for a bare machine with a GPU, and
# the commit that they are of. tests/device/run.sh runs them there.
#
#   tests/device/pack.sh [BUILD_FOLDER]    default build/device, which it builds
#
# Needs nvcc (deploy/setup.sh --tests --nvcc). The tracked files and .device/ together stay
# under 64 MiB.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build/device}
readonly limit_mib=64

# Kernels, models and the verifier's engine on the device; what measures; the services.
tests=(device_probes_test cuda_test cuda_model_test model_test drafter_test verifier_engine_test
  device_bench device_tune graph_bench)
programs=(espalier espalier-coordinator espalier-drafter espalier-node
  espalier-verifier)

if [[ ! -e $build/CMakeCache.txt ]]; then
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON \
    -DESPALIER_TESTS=ON -DESPALIER_TORCH=OFF -DESPALIER_NVCC=ON
fi
grep -q '^ESPALIER_NVCC:BOOL=ON' "$build/CMakeCache.txt" ||
  { echo "$build: not configured with -DESPALIER_NVCC=ON" >&2; exit 1; }
nice cmake --build "$build" -j "$(nproc)" --target "${tests[@]}" "${programs[@]}"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/bin" "$stage/exe" "$stage/lib"
for program in "${programs[@]}"; do strip -o "$stage/exe/$program" "$build/bin/$program"; done
for test in "${tests[@]}"; do strip -o "$stage/exe/$test" "$build/tests/bin/$test"; done
# Only these programs see the libraries: others there, such as Python, have newer ones.
cat >"$stage/bin/start" <<'SCRIPT'
#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
export LD_LIBRARY_PATH="$here/lib"
exec "$here/exe/$(basename "$0")" "$@"
SCRIPT
chmod +x "$stage/bin/start"
for program in "${programs[@]}" "${tests[@]}"; do ln -s start "$stage/bin/$program"; done

# Loaded by the driver.
trace=$build/tests/bin/libkernel_trace.so
[[ ! -e $trace ]] || strip --strip-unneeded -o "$stage/lib/libkernel_trace.so" "$trace"

# All shared libraries but the C library's own parts: what runs them has a newer one.
find "$stage/exe" "$stage/lib" -type f -exec ldd {} + | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so' |
  while read -r library; do
    strip --strip-unneeded -o "$stage/lib/$(basename "$library")" "$library"
  done

{
  git rev-parse HEAD
  [[ -z $(git status --porcelain) ]] || echo "with changes that are not committed"
} >"$stage/commit"
"${CUDACXX:-nvcc}" --version 2>/dev/null | tail -1 >"$stage/compiler" || true

rm -rf .device
mkdir .device
tar -C "$stage" -cf - . | xz -9 -T2 >.device/programs.tar.xz
tree_kib=$(git ls-files -z | du -ck --files0-from=- | tail -1 | cut -f1)
pack_kib=$(du -k .device/programs.tar.xz | cut -f1)
printf '.device/programs.tar.xz: %d MiB; with the tracked files %d MiB of %d\n' \
  $((pack_kib / 1024)) $(((tree_kib + pack_kib) / 1024)) "$limit_mib"
(((tree_kib + pack_kib) / 1024 < limit_mib))
