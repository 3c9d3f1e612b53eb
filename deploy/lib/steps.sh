# shellcheck shell=bash
# Runs a script's steps one after the other: shows what runs, how far it is and
# for how long; keeps each step's log; says what to do when one fails.
#
#   steps_begin TITLE TOTAL LOG_FOLDER
#   step NAME HINT COMMAND...   runs COMMAND; NAME may have spaces
#   step_done NAME              counts a step that has nothing to do
#
# COMMAND runs in a subshell under `set -e`, its output goes to the log. The
# last line of the log is shown as "how far", unless the file $step_progress
# (exported) has a line.

steps_begin() {
  steps_title=$1 steps_total=$2 steps_log_folder=$3 steps_index=0
  step_ticker=
  mkdir -p "$steps_log_folder"
  trap _steps_stop_ticker EXIT
  trap _steps_interrupted INT
}

step_done() {
  steps_index=$((steps_index + 1))
  _steps_print "$1" "done before"
}

step() {
  local name=$1 hint=$2 log began=$SECONDS status=0
  shift 2
  steps_index=$((steps_index + 1))
  log=$steps_log_folder/${name// /-}.log
  export step_progress=$log.progress
  rm -f "$step_progress"
  : >"$log"
  _steps_tick "$name" "$log" "$BASHPID" 9>&- &  # 9: set-up's lock
  step_ticker=$!
  # Not `if (...)`: that would switch `set -e` off inside.
  set +e
  (set -e; "$@") >>"$log" 2>&1 </dev/null
  status=$?
  set -e
  _steps_stop_ticker
  rm -f "$step_progress"
  if ((status != 0)); then
    _steps_fail "$name" "$hint" "$log" "$status"
  fi
  _steps_print "$name" "done in $(_steps_clock $((SECONDS - began)))"
}

# Prints why the script stops and what to do, and stops it.
die() {
  printf '\n%s: %s\n' "$(basename "$0")" "$1" >&2
  shift
  (($# == 0)) || printf '  %s\n' "$@" >&2
  exit 1
}

_steps_fail() {
  local name=$1 hint=$2 log=$3 status=$4
  {
    printf '\nStep %d of %d, %s, failed (exit status %d). Its last lines:\n\n' \
      "$steps_index" "$steps_total" "$name" "$status"
    tail -n 15 "$log" | sed 's/^/    /'
    printf '\nThe whole log: %s\nWhat to do: %s\n' "$log" "$hint"
    printf 'Then run the same command again: it goes on from here.\n'
  } >&2
  exit 1
}

_steps_interrupted() {
  printf '\nInterrupted. Run the same command again: it goes on from here.\n' >&2
  exit 130
}

_steps_clock() {
  printf '%d:%02d' $(($1 / 60)) $(($1 % 60))
}

_steps_print() {
  local clear=
  [[ ! -t 1 ]] || clear=$'\r\e[K'
  printf '%s%s [%d/%d] %s: %s\n' "$clear" "$steps_title" "$steps_index" "$steps_total" "$1" "$2"
}

_steps_stop_ticker() {
  [[ -n $step_ticker ]] || return 0
  kill "$step_ticker" 2>/dev/null || true
  wait "$step_ticker" 2>/dev/null || true
  step_ticker=
}

# _steps_left SECONDS LINE: of a line of ninja's, how far it is and the time that is
# left if all parts take as long as those before; other lines as they are.
_steps_left() {
  if [[ $2 =~ ^\[([0-9]+)/([0-9]+)\] ]] && ((BASH_REMATCH[1] > 4)); then
    printf '%s of %s, about %s left' "${BASH_REMATCH[@]:1:2}" \
      "$(_steps_clock $(($1 * (BASH_REMATCH[2] - BASH_REMATCH[1]) / BASH_REMATCH[1])))"
  else
    printf '%.80s' "$2"
  fi
}

# Shows the progress every second on a terminal, every 15 s in a log. Ends with
# the script, however that ends.
_steps_tick() {
  local name=$1 log=$2 script=$3 began=$SECONDS line pause=15 end=$'\n' start=
  trap - EXIT
  if [[ -t 1 ]]; then
    pause=1 end='' start=$'\r\e[K'
  else
    sleep "$pause" >/dev/null 2>&1
  fi
  while kill -0 "$script" 2>/dev/null; do
    line=$(tail -n 1 "$step_progress" 2>/dev/null || tail -n 1 "$log")
    printf '%s%s [%d/%d] %s %s  %s%s' "$start" "$steps_title" "$steps_index" \
      "$steps_total" "$name" "$(_steps_clock $((SECONDS - began)))" \
      "$(_steps_left $((SECONDS - began)) "$line")" "$end"
    sleep "$pause" >/dev/null 2>&1  # may outlive the script: hold no pipe
  done
}
