#!/usr/bin/env bash
# The local cluster: one process per service, connected by Unix sockets. It stays a script:
# it needs the system's tools alone, and shows how services are started, which
# `espalier serve` does within one process.
#
#   deploy/cluster.sh start    starts the services that do not run; restarts all after a
#                              new build; returns when all are SERVING
#   deploy/cluster.sh stop
#   deploy/cluster.sh status   exit status 0: every service is SERVING
#   deploy/cluster.sh address  prints the address for clients
#   deploy/cluster.sh api      prints the address of the coordinator's HTTP: OpenAI's and
#                              Anthropic's APIs, on the loopback interface, port
#                              $ESPALIER_API_PORT (8080) or, if that is taken, another
#   deploy/cluster.sh metrics  prints the addresses of the metrics
#   deploy/cluster.sh page     prints the address of the coordinator's status page; its
#                              key lets the page show the text of answers
#
# Metrics are on the loopback interface, from port $ESPALIER_METRICS_PORT (9464, the
# coordinator's) on, one for each service.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=deploy/lib/paths.sh
source "$here/lib/paths.sh"

# Drafters in the coordinator's process: prompt lookup, and what grammars force.
readonly near=(lookup grammar)
readonly -A near_types=([lookup]=prompt_lookup [grammar]=grammar)
# In the order of starting, so that the coordinator finds its peers ready. The
# drafters of the default model that are part of the repository.
drafters=()
for folder in "$here"/drafters/*/; do
  drafters+=("$(basename "$folder")")
done
readonly drafters
readonly services=(verifier "${drafters[@]}" coordinator)
readonly start_timeout_s=120 stop_timeout_s=8
readonly api_port=${ESPALIER_API_PORT:-8080}
# The ports of the configuration files begin here.
readonly usual_metrics_port=9464
readonly metrics_port=${ESPALIER_METRICS_PORT:-$usual_metrics_port}

address() { echo "unix:$run_dir/$1.sock"; }

# The token that the coordinator presents to a peer, so that no other peer can act as it.
token_of() { echo "$run_dir/$1.token"; }

config_of() { echo "$here/config/$1.textproto"; }

binary_of() {
  case $1 in
    verifier | coordinator) echo "$bin/espalier-$1" ;;
    *) echo "$bin/espalier-drafter" ;;
  esac
}

# Settings that depend on the machine and so are not in the configuration file.
settings_of() {
  local i service
  printf '%s\n' --set "server.listen.0=$(address "$1")" \
    --set "server.metrics_listen=127.0.0.1:$(metrics_port_of "$1")"
  case $1 in
    coordinator)
      printf '%s\n' --set "model=$model" --set "verifier=$(address verifier)" \
        --set "verifier_token_file=$(token_of verifier)" --set "admin_listen=$(address admin)" \
        --set "core.status_key_file=$(token_of page)" \
        --set "http_listen=127.0.0.1:$(port_of_api)" \
        --set "server.address_file=$run_dir/coordinator.addresses"
      for i in "${!near[@]}"; do
        printf '%s\n' --set "drafters.$i.name=${near[i]}" \
          --set "drafters.$i.type=${near_types[${near[i]}]}"
      done
      for service in "${drafters[@]}"; do
        i=$((i + 1))
        printf '%s\n' --set "drafters.$i.name=$service" \
          --set "drafters.$i.address=$(address "$service")" \
          --set "drafters.$i.token_file=$(token_of "$service")"
      done
      return
      ;;
    verifier) ;;
    *) printf '%s\n' --set "engine.options.model=$model/drafters/$1" ;;
  esac
  printf '%s\n' --set "engine.model=$model" --set "token_file=$(token_of "$1")"
}

fail() {
  echo "cluster: $*" >&2
  exit 1
}

# The port in the service's configuration file, moved as all are.
metrics_port_of() {
  local port
  port=$(sed -nE 's|.*metrics_listen: "127\.0\.0\.1:([0-9]+)".*|\1|p' "$(config_of "$1")")
  echo $((port - usual_metrics_port + metrics_port))
}

# is_free PORT: nobody listens there on the loopback interface.
is_free() { ! (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# 0: the coordinator takes any.
port_of_api() { if is_free "$api_port"; then echo "$api_port"; else echo 0; fi; }

# require_free PORT WHAT VARIABLE
require_free() {
  is_free "$1" || fail "port $1, $2, is taken by another program." \
    "Run again with other ports: $3=PORT in the environment."
}

show_log() {
  echo "Last lines of $run_dir/$1.log:" >&2
  tail -n 12 "$run_dir/$1.log" | sed 's/^/    /' >&2
}

# Prints the process id if the service runs. A process that reuses the id of a
# dead service does not have its socket in the command line.
pid_of() {
  local pid
  pid=$(cat "$run_dir/$1.pid" 2>/dev/null) || return 1
  tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep -qxF "server.listen.0=$(address "$1")" || return 1
  echo "$pid"
}

# Does not call a service that has no socket yet.
is_serving() {
  [[ -S $run_dir/$1.sock ]] && timeout 3 "$bin/espalier" check "$(address "$1")" >/dev/null 2>&1
}

# Changes when the running services differ from those that would be started.
build_id() {
  stat -c '%n %s %y' "$bin"/espalier-{coordinator,drafter,verifier}
  cksum "$here"/config/*.textproto "$here/cluster.sh" "$model/.stamp" "$model/drafters/.stamp"
  echo "metrics from port $metrics_port"
}

launch() {
  local settings
  require_free "$(metrics_port_of "$1")" "for the metrics of the $1" ESPALIER_METRICS_PORT
  mapfile -t settings < <(settings_of "$1")
  rm -f "$run_dir/$1.pid" "$run_dir/$1.sock"
  # In its own session, so that Ctrl-C in the terminal does not stop the service.
  # Descriptor 8 is the cluster's lock.
  # shellcheck disable=SC2016  # expanded by the inner shell
  setsid bash -c 'echo $$ >"$0"; exec "$@"' "$run_dir/$1.pid" \
    "$(binary_of "$1")" --config "$(config_of "$1")" "${settings[@]}" \
    >"$run_dir/$1.log" 2>&1 </dev/null 8>&- &
  # The service would count as dead until the id is written.
  wait_until 5 test -s "$run_dir/$1.pid" || fail "the $1 cannot be started"
}

# wait_until SECONDS COMMAND...
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.1 8>&-
  done
}

wait_for() {
  local began=$SECONDS
  until is_serving "$1"; do
    if ! pid_of "$1" >/dev/null; then
      show_log "$1"
      fail "the $1 ended while it started"
    fi
    if ((SECONDS - began > start_timeout_s)); then
      show_log "$1"
      fail "the $1 is not ready after $start_timeout_s s"
    fi
    echo "waiting for the $1, $((SECONDS - began)) s"
    sleep 0.2 8>&-
  done
  echo "the $1 is ready"
}

prepare_run_dir() {
  mkdir -m 700 "$run_dir" 2>/dev/null || true
  [[ -O $run_dir && ! -L $run_dir ]] || fail "$run_dir belongs to somebody else: set XDG_RUNTIME_DIR"
  local longest
  longest=$(address coordinator)
  ((${#longest} - 5 <= 107)) || fail "${longest#unix:} is longer than a socket's path may be: set XDG_RUNTIME_DIR"
  exec 8>"$run_dir/.lock"
  flock 8
}

# New secrets whenever the whole cluster starts, readable by its user only.
make_tokens() {
  local name
  for name in verifier "${drafters[@]}" page; do
    (umask 077 && od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$(token_of "$name")")
  done
}

start() {
  local service id
  for service in "${services[@]}"; do
    [[ -x $(binary_of "$service") ]] || fail "no $(binary_of "$service"): run deploy/quickstart.sh"
  done
  id=$(build_id) || fail "the model or its drafters are missing: run deploy/quickstart.sh"
  prepare_run_dir
  if [[ $(cat "$run_dir/build-id" 2>/dev/null) != "$id" ]]; then
    stop_services
    make_tokens
    echo "$id" >"$run_dir/build-id"
  fi
  # The verifier measures its pass costs, so it starts alone.
  pid_of verifier >/dev/null || launch verifier
  wait_for verifier
  for service in "${drafters[@]}"; do
    pid_of "$service" >/dev/null || launch "$service"
  done
  for service in "${drafters[@]}"; do
    wait_for "$service"
  done
  pid_of coordinator >/dev/null || launch coordinator
  wait_for coordinator
}

# stop_together SERVICE...
stop_together() {
  local service pid
  local -A pids=()
  for service in "$@"; do
    pid=$(pid_of "$service") || continue
    pids[$service]=$pid
    kill -TERM "$pid" 2>/dev/null || true
  done
  for service in "${!pids[@]}"; do
    wait_until "$stop_timeout_s" has_ended "$service" || kill -KILL "${pids[$service]}" 2>/dev/null || true
    echo "stopped the $service"
  done
  for service in "$@"; do
    rm -f "$run_dir/$service.pid" "$run_dir/$service.sock"
  done
}

has_ended() { ! pid_of "$1" >/dev/null; }

# The coordinator stops first: it finishes its requests, and needs its peers for
# that. Without requests, the peers have nothing to wait for.
stop_services() {
  stop_together coordinator
  # Those of an older build ran by themselves.
  stop_together "${drafters[@]}" "${near[@]}" verifier
  rm -f "$run_dir/build-id" "$run_dir/admin.sock" "$run_dir"/*.token
}

status() {
  local service pid all=0
  for service in "${services[@]}"; do
    if ! pid=$(pid_of "$service"); then
      printf '%-12s not running\n' "$service"
      all=1
    elif is_serving "$service"; then
      printf '%-12s SERVING      process %s\n' "$service" "$pid"
    else
      printf '%-12s NOT SERVING  process %s, log %s\n' "$service" "$pid" "$run_dir/$service.log"
      all=1
    fi
  done
  return "$all"
}

# metrics_of SERVICE PATH: the HTTP address of the path. A service that runs may have
# been started with other ports than this call names.
metrics_of() {
  local pid at=
  if pid=$(pid_of "$1"); then
    at=$(tr '\0' '\n' <"/proc/$pid/cmdline" | sed -nE 's/^server\.metrics_listen=//p')
  fi
  echo "http://${at:-127.0.0.1:$(metrics_port_of "$1")}$2"
}

require_running() {
  pid_of coordinator >/dev/null || fail "the cluster does not run: deploy/quickstart.sh starts it"
}

page() {
  require_running
  metrics_of coordinator "/?key=$(cat "$(token_of page)")"
}

api() {
  require_running
  sed -n 's|^http |http://|p' "$run_dir/coordinator.addresses"
}

metrics() {
  local service
  for service in "${services[@]}"; do
    metrics_of "$service" /metrics
  done
}

case ${1:-} in
  start) start ;;
  stop)
    if [[ -d $run_dir ]]; then
      prepare_run_dir
      stop_services
    fi
    ;;
  status) status ;;
  address) address coordinator ;;
  api) api ;;
  metrics) metrics ;;
  page) page ;;
  *)
    echo "usage: deploy/cluster.sh start|stop|status|address|api|metrics|page" >&2
    exit 2
    ;;
esac
