#!/usr/bin/env bash
# Builds the images of the local cluster: espalier-{coordinator,verifier,drafter,models}.
#
#   docker/build.sh          compiles in a container, from nothing but the sources
#   docker/build.sh --dist   compiles outside, on Debian 12, and copies: the daily loop
#   docker/build.sh --cuda   also espalier-verifier-cuda; with --dist after
#                            deploy/setup.sh --nvcc
#
# Works where no image registry can be reached, and where TLS is looked into: the
# certificates that pip uses here reach the build as a secret, not as a layer.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$repo"
artifacts=build
cuda=
targets=(coordinator verifier drafter models)
for flag in "$@"; do
  case $flag in
    --dist) artifacts=dist ;;
    --cuda) cuda=yes targets+=(verifier-cuda) ;;
    *)
      sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p}' "${BASH_SOURCE[0]}" >&2
      exit 2
      ;;
  esac
done

# BuildKit: newer clients have it in a plugin, Debian 12's own has it inside.
docker=docker
docker buildx version >/dev/null 2>&1 || [[ ! -x /usr/bin/docker ]] || docker=/usr/bin/docker

# Stages `dist/bin` as the stage `compile` of the Dockerfile makes it.
build_dist() {
  cmake --preset release -B build/containers -DESPALIER_TESTS=OFF
  local programs=(espalier espalier-coordinator espalier-drafter espalier-verifier)
  cmake --build build/containers -j "$(nproc)" --target "${programs[@]}"
  mkdir -p dist/bin
  local program
  for program in "${programs[@]}"; do
    strip -o "dist/bin/$program" "build/containers/bin/$program"
  done
}

# `dist/cuda`, as the stage `compile-cuda`.
build_dist_cuda() {
  cmake --preset release -B build/containers-cuda -DESPALIER_TESTS=OFF -DESPALIER_NVCC=ON
  local programs=(espalier espalier-verifier espalier-node)
  cmake --build build/containers-cuda -j "$(nproc)" --target "${programs[@]}"
  mkdir -p dist/cuda
  local program
  for program in "${programs[@]}"; do
    strip -o "dist/cuda/$program" "build/containers-cuda/bin/$program"
  done
}

# image TARGET
image() {
  local ca=${PIP_CERT:-${SSL_CERT_FILE:-}}
  DOCKER_BUILDKIT=1 "$docker" build -q -f docker/Dockerfile --target "$1" \
    --build-arg ARTIFACTS="$artifacts" ${ca:+--secret id=ca,src="$ca"} -t "espalier-$1:local" . >/dev/null
  echo "espalier-$1:local $(docker image inspect -f '{{.Size}}' "espalier-$1:local" | numfmt --to=si)B"
}

docker/base_image.sh
if [[ $artifacts == dist ]]; then
  build_dist
  [[ -z $cuda ]] || build_dist_cuda
fi
for target in "${targets[@]}"; do
  image "$target"
done
# Prometheus' own image, or Debian's package of it.
if ! docker image inspect prom/prometheus:v2.53.2 >/dev/null 2>&1 &&
  ! docker pull -q prom/prometheus:v2.53.2 2>/dev/null; then
  image prometheus
fi
