#!/usr/bin/env bash
# The local cluster: a process for each service, which talk over Unix sockets.
#
#   deploy/cluster.sh start    starts what does not run; restarts all after a
#                              new build; returns when every service is SERVING
#   deploy/cluster.sh stop
#   deploy/cluster.sh status   exit status 0: every service is SERVING
#   deploy/cluster.sh address  prints where clients connect
#   deploy/cluster.sh metrics  prints where the metrics are
#   deploy/cluster.sh page     prints where the coordinator's status page is
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=deploy/lib/paths.sh
source "$here/lib/paths.sh"

# In the order of starting: the coordinator finds its peers ready.
# Prompt lookup, and the drafters of the default model that are part of the
# repository.
drafters=(lookup)
for folder in "$here"/drafters/*/; do
  drafters+=("$(basename "$folder")")
done
readonly drafters
readonly services=(verifier "${drafters[@]}" coordinator)
readonly start_timeout_s=120 stop_timeout_s=8

address() { echo "unix:$run_dir/$1.sock"; }

config_of() { echo "$here/config/$1.textproto"; }

binary_of() {
  case $1 in
    verifier | coordinator) echo "$bin/espalier-$1" ;;
    *) echo "$bin/espalier-drafter" ;;
  esac
}

# What depends on the machine and so is not in the configuration file.
settings_of() {
  local i
  printf '%s\n' --set "server.listen=$(address "$1")"
  case $1 in
    coordinator)
      printf '%s\n' --set "model=$model" --set "verifier=$(address verifier)"
      for i in "${!drafters[@]}"; do
        printf '%s\n' --set "drafters.$i.name=${drafters[i]}" \
          --set "drafters.$i.address=$(address "${drafters[i]}")"
      done
      ;;
    verifier | lookup) printf '%s\n' --set "engine.model=$model" ;;
    *) printf '%s\n' --set "engine.model=$model" --set "engine.options.model=$model/drafters/$1" ;;
  esac
}

fail() {
  echo "cluster: $*" >&2
  exit 1
}

show_log() {
  echo "Last lines of $run_dir/$1.log:" >&2
  tail -n 12 "$run_dir/$1.log" | sed 's/^/    /' >&2
}

# Prints the process id if the service runs. A process that got the id of a
# dead service does not name its socket.
pid_of() {
  local pid
  pid=$(cat "$run_dir/$1.pid" 2>/dev/null) || return 1
  tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep -qxF "server.listen=$(address "$1")" || return 1
  echo "$pid"
}

# Disturbs nobody who has no socket yet.
is_serving() {
  [[ -S $run_dir/$1.sock ]] && timeout 3 "$bin/espalier" check "$(address "$1")" >/dev/null 2>&1
}

# Changes when the running services no longer are what would be started.
build_id() {
  stat -c '%n %s %y' "$bin"/espalier-{coordinator,drafter,verifier}
  cksum "$here"/config/*.textproto "$here/cluster.sh" "$model/.stamp" "$model/drafters/.stamp"
}

launch() {
  local settings
  mapfile -t settings < <(settings_of "$1")
  rm -f "$run_dir/$1.pid" "$run_dir/$1.sock"
  # In a session of its own: Ctrl-C in the terminal is not for the service.
  # 8 is the cluster's lock.
  # shellcheck disable=SC2016  # expanded by the inner shell
  setsid bash -c 'echo $$ >"$0"; exec "$@"' "$run_dir/$1.pid" \
    "$(binary_of "$1")" --config "$(config_of "$1")" "${settings[@]}" \
    >"$run_dir/$1.log" 2>&1 </dev/null 8>&- &
  # Until the id is written the service would count as dead.
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

start() {
  local service id
  for service in "${services[@]}"; do
    [[ -x $(binary_of "$service") ]] || fail "no $(binary_of "$service"): run deploy/quickstart.sh"
  done
  id=$(build_id) || fail "the model or its drafters are missing: run deploy/quickstart.sh"
  prepare_run_dir
  if [[ $(cat "$run_dir/build-id" 2>/dev/null) != "$id" ]]; then
    stop_services
    echo "$id" >"$run_dir/build-id"
  fi
  # Measures what its passes cost: with the machine to itself.
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

stop_service() {
  local pid
  if pid=$(pid_of "$1"); then
    kill -TERM "$pid" 2>/dev/null || true
    wait_until "$stop_timeout_s" has_ended "$1" || kill -KILL "$pid" 2>/dev/null || true
    echo "stopped the $1"
  fi
  rm -f "$run_dir/$1.pid" "$run_dir/$1.sock"
}

has_ended() { ! pid_of "$1" >/dev/null; }

stop_services() {
  local i
  for ((i = ${#services[@]} - 1; i >= 0; i--)); do
    stop_service "${services[i]}"
  done
  rm -f "$run_dir/build-id"
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

# metrics_of SERVICE PATH: where that is served over HTTP.
metrics_of() {
  sed -nE "s|.*metrics_listen: \"(.*)\".*|http://\1$2|p" "$(config_of "$1")"
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
  metrics) metrics ;;
  page) metrics_of coordinator '/' ;;
  *)
    echo "usage: deploy/cluster.sh start|stop|status|address|metrics|page" >&2
    exit 2
    ;;
esac
