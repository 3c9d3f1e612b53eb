# shellcheck shell=bash disable=SC2154  # set by paths.sh and steps.sh
# Wheels by pip: a Python environment of our own, downloads with checksums.

wheels=$cache/wheels
venv=$cache/venv

# A Python that can make an environment. The system's comes first: it is the
# one that the package python3-venv is for.
find_python() {
  local python
  for python in /usr/bin/python3 python3; do
    if "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$python"
      return
    fi
  done
  echo "no python3 of version 3.11 or newer with the modules venv and ensurepip" >&2
  return 1
}

venv_is_ready() { [[ -x $venv/bin/python && -e $venv/.stamp ]]; }

make_venv() {
  local python
  python=$(find_python)
  echo "environment of $python"
  rm -rf "$venv"
  "$python" -m venv "$venv"
  touch "$venv/.stamp"
}

# What deploy/convert_gguf.py and the tests import.
install_python_packages() {
  # shellcheck disable=SC2086  # one word per package
  pip install --no-deps --only-binary=:all: $ESPALIER_PYTHON_PACKAGES
}

pip() {
  "$venv/bin/python" -m pip --disable-pip-version-check --no-cache-dir "$@" \
    --progress-bar off
}

# wheel_path NAME VERSION: where the wheel is, if it has been downloaded.
wheel_path() {
  local found=("$wheels/${1//-/_}-$2-"*.whl)
  [[ -e ${found[0]} ]] && echo "${found[0]}"
}

# fetch_wheel NAME VERSION SHA256 MEGABYTES: downloads, unless it is there.
fetch_wheel() {
  local name=$1 version=$2 sha256=$3 megabytes=$4 temporary=$cache/tmp/download path
  if path=$(wheel_path "$name" "$version") && wheel_is_intact "$path" "$sha256"; then
    echo "have $name $version"
    return
  fi
  rm -rf "$temporary"
  mkdir -p "$temporary/part" "$temporary/whole" "$wheels"
  watch_download "$name" "$megabytes" "$temporary/part" 9>&- &
  echo "$name==$version --hash=sha256:$sha256" >"$temporary/requirements.txt"
  # The wheels for Python 3.11, whatever runs here: of torch only the C++
  # libraries are used, and the checksums are of these files.
  TMPDIR=$temporary/part pip download --no-deps --only-binary=:all: \
    --require-hashes -r "$temporary/requirements.txt" -d "$temporary/whole" \
    --python-version 3.11 --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_25_x86_64 --platform manylinux2014_x86_64
  mv "$temporary/whole/"*.whl "$wheels/"
  rm -rf "$temporary"  # which ends watch_download
  wait
}

wheel_is_intact() {
  echo "$2  $1" | sha256sum --check --status
}

# Writes how much of a download has arrived to the step's progress file.
watch_download() {
  local name=$1 megabytes=$2 folder=$3 arrived
  while [[ -d $folder ]] && kill -0 $$ 2>/dev/null; do
    arrived=$(du -sm "$folder" 2>/dev/null | cut -f1)
    echo "downloading $name: ${arrived:-0} of $megabytes MB" >"$step_progress"
    sleep 1
  done
  rm -f "$step_progress"
}

# unpack_wheel NAME VERSION FOLDER PATTERN...
unpack_wheel() {
  local path folder=$3
  path=$(wheel_path "$1" "$2")
  shift 3
  echo "unpacking $(basename "$path")"
  unzip -qo "$path" "$@" -d "$folder"
}

# replace_folder NEW OLD: puts NEW in OLD's place.
replace_folder() {
  local discarded=$cache/tmp/discarded
  rm -rf "$discarded"
  mkdir -p "$(dirname "$2")"
  [[ ! -e $2 ]] || mv "$2" "$discarded"
  mv "$1" "$2"
  rm -rf "$discarded"
}
