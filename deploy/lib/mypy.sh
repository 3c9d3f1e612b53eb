# shellcheck shell=bash disable=SC2154  # set by paths.sh, wheels.sh and versions.env
# mypy, and what the checked code imports with types of its own; for tests/lint.sh.
mypy_is_ready() {
  [[ $(cat "$mypy/.stamp" 2>/dev/null) == "$ESPALIER_MYPY_PACKAGES" ]]
}

make_mypy() {
  make_client_venv "$mypy" "$ESPALIER_MYPY_PACKAGES"
}
