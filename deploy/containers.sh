#!/usr/bin/env bash
# The local cluster of docker-compose.yml. Works where images cannot be pulled.
#
#   deploy/containers.sh up [--build]   builds missing images (--build: all), starts,
#                                       returns when the coordinator serves
#   deploy/containers.sh down           stops and removes; keeps the model's volume
#   deploy/containers.sh compose ...    docker-compose with the same settings
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
readonly wanted_profiles=${COMPOSE_PROFILES:-}
# shellcheck source=deploy/.env
source .env
export COMPOSE_PROFILES=${wanted_profiles:-$COMPOSE_PROFILES}
readonly timeout_s=300

docker info >/dev/null 2>&1 || {
  echo "containers: no container engine answers (docker info)" >&2
  exit 1
}

have_image() { docker image inspect "$1" >/dev/null 2>&1; }

compose() {
  local command=(docker-compose)
  ! docker compose version >/dev/null 2>&1 || command=(docker compose)
  # docker-compose of Debian 12 waits a minute for the engine, less than making a
  # container takes on a busy machine.
  COMPOSE_HTTP_TIMEOUT=${COMPOSE_HTTP_TIMEOUT:-$timeout_s} \
    PROMETHEUS_IMAGE=$(prometheus_image) ESPALIER_CA_FILE=${PIP_CERT:-${SSL_CERT_FILE:-/dev/null}} \
    "${command[@]}" "$@"
}

# docker/build.sh makes the second image where the first cannot be pulled.
prometheus_image() {
  if ! have_image "$PROMETHEUS_IMAGE" && have_image espalier-prometheus:local; then
    echo espalier-prometheus:local
  else
    echo "$PROMETHEUS_IMAGE"
  fi
}

build() {
  local name names=(coordinator verifier drafter models) flags=()
  [[ $COMPOSE_PROFILES != *gpu* ]] || names+=(verifier-cuda) flags+=(--cuda)
  for name in "${names[@]}"; do
    [[ -z ${1:-} ]] && have_image "espalier-$name:local" || { ../docker/build.sh "${flags[@]}"; return; }
  done
}

# Grafana has no Debian package, so it needs an image registry.
leave_out_missing_grafana() {
  have_image "$GRAFANA_IMAGE" || docker pull -q "$GRAFANA_IMAGE" >/dev/null 2>&1 || {
    echo "containers: $GRAFANA_IMAGE cannot be pulled; going on without Grafana" >&2
    export COMPOSE_PROFILES=${COMPOSE_PROFILES/grafana/}
  }
}

await_coordinator() {
  local id began=$SECONDS
  id=$(compose ps -q coordinator)
  until [[ $(docker inspect -f '{{.State.Health.Status}}' "$id") == healthy ]]; do
    if ((SECONDS - began > timeout_s)); then
      compose logs --tail 20 >&2
      echo "containers: the coordinator does not serve after $timeout_s s" >&2
      exit 1
    fi
    sleep 0.5
  done
}

case ${1:-} in
  up)
    build "${2:-}"
    leave_out_missing_grafana
    compose up -d --no-build
    await_coordinator
    echo "serving: 127.0.0.1:50051; HTTP 127.0.0.1:8080; status page http://127.0.0.1:9464/; Prometheus http://127.0.0.1:9090/"
    ;;
  down) compose down --remove-orphans ;;
  compose) compose "${@:2}" ;;
  *)
    sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
