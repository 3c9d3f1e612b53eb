#!/usr/bin/env bash
# Installs what Espalier needs to build and run on Debian 12 or Ubuntu 24.04.
#
#   deploy/setup.sh [--unit-tests] [--tests] [--with-libtorch] [--nvcc] [--clang] [--gemma] [--envoy]
#                   [--further-clients]
#
#   --unit-tests     also GoogleTest, and clang, which compiles tests
#   --tests          also what the tests need, the default model in bfloat16 among
#                    it; implies --with-libtorch
#   --with-libtorch  also libtorch, for the backend `aten` (-DESPALIER_TORCH=ON)
#   --nvcc           also what compiles kernels for GPUs, where there is no CUDA
#                    toolkit
#   --clang          also clang's tools, for the presets `asan` and `dev`, and
#                    mypy; both for tests/lint.sh
#   --gemma          also Gemma 3 270M, under Gemma's terms of use: a second real
#                    model, for a long test
#   --envoy          also Envoy, for a long test of deploy/examples/envoy
#   --further-clients
#                    also LangChain, LiteLLM, pydantic-ai and Locust, for nightly tests
#
# Everything except system packages goes to $ESPALIER_CACHE (default:
# ~/.cache/espalier). Can be interrupted and run again; finished steps are not
# repeated. Wheels in $ESPALIER_CACHE/wheels are not downloaded again; they are
# deleted at the end unless ESPALIER_KEEP_WHEELS is set.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=deploy/versions.env
source "$here/versions.env"
# shellcheck source=deploy/lib/paths.sh
source "$here/lib/paths.sh"
# shellcheck source=deploy/lib/steps.sh
source "$here/lib/steps.sh"
# shellcheck source=deploy/lib/apt.sh
source "$here/lib/apt.sh"
# shellcheck source=deploy/lib/wheels.sh
source "$here/lib/wheels.sh"
# shellcheck source=deploy/lib/libtorch.sh
source "$here/lib/libtorch.sh"
# shellcheck source=deploy/lib/nvcc.sh
source "$here/lib/nvcc.sh"
# shellcheck source=deploy/lib/chat_templates.sh
source "$here/lib/chat_templates.sh"
# shellcheck source=deploy/lib/xgrammar.sh
source "$here/lib/xgrammar.sh"
# shellcheck source=deploy/lib/default_model.sh
source "$here/lib/default_model.sh"
# shellcheck source=deploy/lib/gemma.sh
source "$here/lib/gemma.sh"
# shellcheck source=deploy/lib/clients.sh
source "$here/lib/clients.sh"
# shellcheck source=deploy/lib/mypy.sh
source "$here/lib/mypy.sh"

# Most that set-up takes at a time, wheels included.
readonly disk_of_templates_mb=500 disk_of_model_mb=600 disk_of_libtorch_mb=2500
readonly download_hint="check the network and pip's settings (pip config list)"

set_up_packages() {
  local missing
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "Not a Debian or Ubuntu system: install the counterparts of these yourself:"
    echo "  $*"
    step_done "system packages"
    return
  fi
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    step_done "system packages"
    return
  fi
  require_root "${missing[@]}"
  step "system packages" "check apt's sources; this has to work: apt-get install ${missing[*]}" \
    install_packages "${missing[@]}"
}

# Some tests skip without these packages; without them the other tests still run.
set_up_optional_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} > 0)) || return 0
  command -v apt-get >/dev/null || return 0
  require_root "${missing[@]}"
  install_packages "${missing[@]}" >"$logs/optional-packages" 2>&1 ||
    echo "Not installed, some tests will be skipped: ${missing[*]}"
}

# ensure NAME HINT READY COMMAND: runs COMMAND as a step unless READY succeeds.
ensure() {
  if "$3"; then step_done "$1"; else step "$1" "$2" "$4"; fi
}

check_architecture() {
  [[ $(uname -m) != x86_64 ]] || return 0
  die "libtorch is pinned for x86-64 only, and this is $(uname -m)." \
    "Without it everything but the backend aten works, on portable kernels (not tested here):" \
    "  cmake --preset release && cmake --build --preset release" \
    "With a libtorch of your own: -DESPALIER_TORCH=ON -DESPALIER_LIBTORCH=<folder with include/ and lib/>"
}

# check_disk MB
check_disk() {
  local disk_needed_mb=$1 free
  free=$(df -Pm "$cache" | awk 'NR == 2 { print $4 }')
  ((free >= disk_needed_mb)) || die \
    "$cache has $free MB left, set-up needs $disk_needed_mb MB." \
    "Free some, or set ESPALIER_CACHE to a folder on another disk."
}

# Two concurrent set-ups would interfere with each other.
take_turn() {
  exec 9>"$cache/.lock"
  flock -n 9 || { echo "Waiting for another set-up to end"; flock 9; }
}

main() {
  local packages=("${build_packages[@]}") optional=() libtorch_wanted='' nvcc='' gemma='' envoy_wanted='' further='' mypy_wanted='' converted=
  local usage="usage: deploy/setup.sh [--unit-tests] [--tests] [--with-libtorch] [--nvcc] [--clang] [--gemma] [--envoy] [--further-clients]"
  while (($# > 0)); do
    case $1 in
      --unit-tests) packages+=("${unit_test_packages[@]}") ;;
      --tests)
        packages+=("${unit_test_packages[@]}" "${test_packages[@]}") optional+=("${optional_test_packages[@]}")
        libtorch_wanted=1 converted=1
        ;;
      --with-libtorch) libtorch_wanted=1 ;;
      --nvcc) nvcc=1 ;;
      --gemma) gemma=1 ;;
      --envoy) envoy_wanted=1 ;;
      --further-clients) further=1 ;;
      --clang) packages+=("${clang_packages[@]}") mypy_wanted=1 ;;
      *) echo "$usage" >&2; exit 2 ;;
    esac
    shift
  done
  take_turn
  steps_begin set-up "$((5 + ${#libtorch_wanted} + ${#nvcc} + ${#gemma} + ${#envoy_wanted} + ${#further} + ${#mypy_wanted} + 3 * ${#converted}))" "$logs"
  set_up_packages "${packages[@]}"
  set_up_optional_packages "${optional[@]}"
  default_model_is_ready || check_disk "$disk_of_model_mb"
  ensure "Python environment" "$download_hint; python3 needs the module venv" venv_is_ready make_venv
  if [[ $libtorch_wanted ]]; then
    check_architecture
    libtorch_is_ready || check_disk "$disk_of_libtorch_mb"
    ensure "libtorch" "$download_hint" libtorch_is_ready make_libtorch
  fi
  if [[ $nvcc ]]; then
    ensure "nvcc" "$download_hint" nvcc_is_ready make_nvcc
  fi
  ensure "xgrammar" "$download_hint" xgrammar_is_ready make_xgrammar
  ensure "default model" "$download_hint" default_model_is_ready make_default_model
  ensure "its drafters" "see the log" drafters_are_ready place_drafters
  if [[ $gemma ]]; then
    gemma_is_ready || check_disk "$disk_of_model_mb"
    ensure "Gemma 3 270M" "$download_hint" gemma_is_ready make_gemma
  fi
  if [[ $envoy_wanted ]]; then
    ensure "Envoy" "$download_hint" envoy_is_ready make_envoy
  fi
  if [[ $further ]]; then
    ensure "further HTTP clients" "$download_hint" further_clients_are_ready make_further_clients
  fi
  if [[ $mypy_wanted ]]; then
    ensure "mypy" "$download_hint" mypy_is_ready make_mypy
  fi
  if [[ $converted ]]; then
    chat_templates_are_ready || check_disk "$disk_of_templates_mb"
    ensure "chat templates" "$download_hint" chat_templates_are_ready make_chat_templates
    ensure "HTTP clients" "$download_hint" clients_are_ready make_clients
    ensure "default model in bfloat16" "$download_hint" converted_model_is_ready convert_default_model
  fi
  [[ -n ${ESPALIER_KEEP_WHEELS:-} ]] || rm -rf "$wheels"
  rm -rf "$cache/tmp"
}

main "$@"
