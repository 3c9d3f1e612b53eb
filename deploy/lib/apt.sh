# shellcheck shell=bash disable=SC2034  # read by the scripts that source this
# The system packages.

build_packages=(
  g++ cmake ninja-build ccache mold pkg-config unzip ca-certificates
  protobuf-compiler protobuf-compiler-grpc libgrpc++-dev libprotobuf-dev
  libabsl-dev prometheus-cpp-dev nlohmann-json3-dev libspdlog-dev
  libboost-dev libedit-dev libicu-dev libssl-dev
  python3 python3-venv
)
unit_test_packages=(libgtest-dev libgmock-dev clang)
test_packages=(libbenchmark-dev curl)
clang_packages=(clang clang-format clang-tidy libclang-rt-dev)
# Tests of dashboards, pages and foreign clients skip without them.
optional_test_packages=(
  prometheus chromium fonts-dejavu-core python3-grpcio python3-protobuf python3-yaml
  python3-jinja2 python3-jsonschema
)

# missing_packages PACKAGE...: prints those that are not installed.
missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f '${db:Status-Abbrev}:${Package}:\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    [[ $installed == *"ii :$package:"* ]] || echo "$package"
  done
}

# as_root COMMAND...
as_root() {
  if ((UID == 0)); then "$@"; else sudo "$@"; fi
}

# Asks for the password now, while nothing is printed over the question.
require_root() {
  ((UID != 0)) || return 0
  if ! command -v sudo >/dev/null; then
    die "these system packages are missing: $*" \
      "Run this script as root, or install sudo, or install them yourself:" \
      "apt-get install $*"
  fi
  sudo -v || die "sudo was refused, and these packages are missing: $*"
}

install_packages() {
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600)
  # An interrupted installation first has to be finished.
  as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a
  as_root "${apt[@]}" update
  as_root "${apt[@]}" install -y --no-install-recommends "$@"
}
