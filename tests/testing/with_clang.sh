#!/bin/sh
# with_clang.sh CLANG GCC COMMAND...: runs a command of GCC with clang in its place,
# without options that GCC alone knows. CMake's launcher of the tests' compiler.
clang=$1 gcc=$2
shift 2
header=
for word; do
  shift
  case $word in
    "$gcc") set -- "$@" "$clang" ;;
    --param | ggc-* | -finline-small-functions) ;;
    c++-header)
      header=1
      set -- "$@" c++-header -fpch-instantiate-templates
      ;;
    # What is precompiled does not include what was precompiled before.
    -include) set -- "$@" ${header:+-Xclang} -include ${header:+-Xclang} ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec "$@"
