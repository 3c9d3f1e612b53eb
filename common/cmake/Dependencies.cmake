# Everything Espalier is built on. Version pins of what set-up downloads are in
# deploy/versions.env.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Without DEPEND it runs the preprocessor over every file that it does not have
  # yet; without SLOPPINESS it does not keep what uses precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${CCACHE_PROGRAM})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Its garbage collector has more room before it runs: a tenth less time for 200 MB.
  add_compile_options(
      "SHELL:--param ggc-min-expand=300" "SHELL:--param ggc-min-heapsize=600000")
endif()
find_program(MOLD_PROGRAM mold)
find_program(LLD_PROGRAM ld.lld)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
elseif(LLD_PROGRAM)
  add_link_options(-fuse-ld=lld)
endif()

# espalier_find(NAME [CONFIG]): find_package, with advice if it is missing.
macro(espalier_find name)
  find_package(${name} QUIET ${ARGN})
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} is missing. Run deploy/setup.sh, which installs "
            "what the build needs (for tests: deploy/setup.sh --unit-tests).")
  endif()
endmacro()

espalier_find(Threads)
# Precompiled headers serve only those who have the same macros.
add_compile_options(-pthread)
# Module mode, and before gRPC: Debian's gRPC config expects the targets.
espalier_find(Protobuf)
espalier_find(gRPC CONFIG)
espalier_find(absl CONFIG)
espalier_find(prometheus-cpp CONFIG)
espalier_find(nlohmann_json)
espalier_find(spdlog)
espalier_find(Boost)
espalier_find(OpenSSL COMPONENTS Crypto SSL)
espalier_find(ICU COMPONENTS uc)
espalier_find(PkgConfig)
pkg_check_modules(libedit QUIET IMPORTED_TARGET libedit)
if(NOT libedit_FOUND)
  message(FATAL_ERROR "libedit is missing. Run deploy/setup.sh.")
endif()
add_library(Libedit::libedit ALIAS PkgConfig::libedit)
if(ESPALIER_TESTS)
  espalier_find(GTest)
endif()

# libtorch, from the folder that deploy/setup.sh makes of the pinned wheel.
# find_package(Torch) fails where there is no CUDA toolkit, so the targets are
# made here. The wheel's headers bring an old google/protobuf: -idirafter puts
# them after the system's.
if(ESPALIER_TORCH OR ESPALIER_TEST_TORCH)
  set(ESPALIER_LIBTORCH ${ESPALIER_CACHE_FOLDER}/libtorch CACHE PATH
      "Folder with libtorch's include/ and lib/ (made by deploy/setup.sh)")
  if(NOT EXISTS ${ESPALIER_LIBTORCH}/lib/libtorch_cpu.so)
    message(FATAL_ERROR "No libtorch in ${ESPALIER_LIBTORCH}. Run "
            "deploy/setup.sh --with-libtorch, set "
            "-DESPALIER_LIBTORCH=<folder>, or build without the backend "
            "aten: -DESPALIER_TORCH=OFF -DESPALIER_TEST_TORCH=OFF")
  endif()
  add_library(torch::cpu INTERFACE IMPORTED)
  # A file includes the operators that it names; all of them take 7 s to compile.
  target_compile_definitions(torch::cpu INTERFACE AT_PER_OPERATOR_HEADERS)
  target_compile_options(torch::cpu INTERFACE
      "SHELL:-idirafter ${ESPALIER_LIBTORCH}/include"
      "SHELL:-idirafter ${ESPALIER_LIBTORCH}/include/torch/csrc/api/include")
  target_link_libraries(torch::cpu INTERFACE
      ${ESPALIER_LIBTORCH}/lib/libtorch_cpu.so
      ${ESPALIER_LIBTORCH}/lib/libc10.so)
  # A program that was copied elsewhere finds libtorch in ../lib.
  list(APPEND CMAKE_BUILD_RPATH $ORIGIN/../lib)
  # The old kind of rpath, which also serves the libraries' own dependencies.
  target_link_options(torch::cpu INTERFACE
      -Wl,--disable-new-dtags
      -Wl,-rpath-link,${ESPALIER_LIBTORCH}/lib
      -Wl,-rpath,${ESPALIER_LIBTORCH}/lib)
endif()
