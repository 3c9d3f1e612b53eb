#!/bin/sh
# The compiler of planted faults, as ccache's prefix: a fault may leave a variable
# unused. ccache looks for the arguments as they were, so objects of the build with
# -Werror are found.
for argument; do
  shift
  [ "$argument" = -Werror ] || set -- "$@" "$argument"
done
exec "$@"
