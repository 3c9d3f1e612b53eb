# espalier_library(NAME token_tree SRCS a.cc HDRS a.h DEPS espalier::base [HOT]
#                  [KERNELS] [TEST [GRPC]])
# espalier_binary(NAME espalier-verifier SRCS main.cc DEPS ... [COMPONENT verifier])
# espalier_test(NAME control_test SRCS a_test.cc b_test.cc DEPS ... [GRPC]
#               [LABELS integration] [TIMEOUT seconds] [SHARDS 4] [NIGHTLY 2]
#               [SEQUENTIAL])
#
# A library NAME becomes the target espalier_NAME and the alias espalier::NAME.
# DEPS are public; a library without SRCS is an interface library.
# HOT: it computes in each round, or loops over distributions. A release has it with
# -O1, and the rest, which waits for networks and passes or runs seldom, with -Og: a
# sixth less to compile.
# KERNELS: its loops over numbers are what a pass waits for, so they are compiled
# with -O3, and with -O1 under sanitizers, which have the rest -O0.
# TEST: for tests alone, and compiled as they are.
# GRPC: most files of a test include gRPC or the messages of the wire.
# COMPONENT: the package that has the program (Packages.cmake); default: NAME.
# SEQUENTIAL: starts no thread, so ThreadSanitizer does without it.
# SHARDS: processes that share the cases of a long program.
# NIGHTLY: processes that share its cases with "Nightly" in their names.

function(_espalier_settings target)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
  # __FILE__ names no path of the machine that builds.
  target_compile_options(${target} PRIVATE
      -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE -Wthread-safety)
  endif()
  if(ESPALIER_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(ESPALIER_SANITIZE)
    target_compile_options(${target} PRIVATE
        -fsanitize=${ESPALIER_SANITIZE} -fno-omit-frame-pointer
        -fno-sanitize-recover=all)
    if(ESPALIER_SANITIZE STREQUAL "thread")
      # The macro gives protobuf's map fields members that the system's library
      # knows nothing of. The standard library still learns what it needs.
      target_compile_options(${target} PRIVATE
          -U__SANITIZE_THREAD__ -D_GLIBCXX_TSAN=1)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${ESPALIER_SANITIZE})
  endif()
endfunction()

function(_espalier_product_settings target)
  _espalier_settings(${target})
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -Og)
  endif()
endfunction()

# Tests are compiled without optimisation: most of their lines run once. There
# clang takes 40 % less than GCC, so it compiles them where it is.
if(ESPALIER_TESTS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  find_program(ESPALIER_TEST_CLANG clang++)
endif()
function(_espalier_test_settings target)
  _espalier_settings(${target})
  target_compile_options(${target} PRIVATE -O0)
  if(ESPALIER_TEST_CLANG)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
        "${CMAKE_SOURCE_DIR}/tests/testing/with_clang.sh;${ESPALIER_TEST_CLANG};${CMAKE_CXX_COMPILER};${CMAKE_CXX_COMPILER_LAUNCHER}")
    # As GCC has it: the layout of Abseil's types depends on it.
    target_compile_options(${target} PRIVATE -fsized-deallocation)
  endif()
  # A test states the fields that it is about.
  target_compile_options(${target} PRIVATE -Wno-missing-field-initializers)
  # A local name may be a global one in a file that is compiled with it.
  if(CMAKE_UNITY_BUILD)
    target_compile_options(${target} PRIVATE -Wno-shadow)
  endif()
  # {{x}} is a list of one.
  if(ESPALIER_TEST_CLANG OR CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE -Wno-braced-scalar-init)
  endif()
  if(ESPALIER_SANITIZE MATCHES "undefined")
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

# Compiles a target of the product or of the tests with the precompiled headers of
# its kind (PrecompiledHeaders.cmake has the lists), so that what most files include
# is parsed once. All that share headers have their level of optimisation: at another
# one GCC fails, or optimises as they were.
function(_espalier_compile_product target)
  _espalier_product_settings(${target})
  _espalier_use_headers(${target} product)
endfunction()
function(_espalier_compile_hot target)
  _espalier_settings(${target})
  _espalier_use_headers(${target} hot)
endfunction()
function(_espalier_compile_test target uses_grpc)
  _espalier_test_settings(${target})
  if(uses_grpc)
    _espalier_use_headers(${target} grpc_test)
  else()
    _espalier_use_headers(${target} test)
  endif()
endfunction()
function(_espalier_use_headers target kind)
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    target_precompile_headers(${target} REUSE_FROM espalier_headers_${kind})
  endif()
endfunction()

function(espalier_library)
  cmake_parse_arguments(ARG "GRPC;KERNELS;HOT;TEST" "NAME" "HDRS;SRCS;DEPS" ${ARGN})
  set(target espalier_${ARG_NAME})
  if(ARG_SRCS)
    add_library(${target} STATIC ${ARG_SRCS} ${ARG_HDRS})
    target_link_libraries(${target} PUBLIC ${ARG_DEPS})
    if(ARG_TEST)
      _espalier_compile_test(${target} ${ARG_GRPC})
    elseif(ARG_KERNELS)
      _espalier_settings(${target})
      if(CMAKE_BUILD_TYPE STREQUAL "Release")
        target_compile_options(${target} PRIVATE -O3)
      elseif(ESPALIER_SANITIZE)
        target_compile_options(${target} PRIVATE -O1)
      endif()
    elseif(ARG_HOT)
      _espalier_compile_hot(${target})
    else()
      _espalier_compile_product(${target})
    endif()
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${target} INTERFACE ${ARG_DEPS})
  endif()
  add_library(espalier::${ARG_NAME} ALIAS ${target})
endfunction()

function(espalier_binary)
  cmake_parse_arguments(ARG "" "NAME;COMPONENT" "SRCS;DEPS" ${ARGN})
  if(NOT ARG_COMPONENT)
    set(ARG_COMPONENT ${ARG_NAME})
  endif()
  add_executable(${ARG_NAME} ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS})
  _espalier_compile_product(${ARG_NAME})
  # Installed programs find libtorch where this build has it, or in ../lib.
  set_target_properties(${ARG_NAME} PROPERTIES
      INSTALL_RPATH "$ORIGIN/../lib" INSTALL_RPATH_USE_LINK_PATH ON)
  # Those that were not built are not installed.
  install(TARGETS ${ARG_NAME} RUNTIME DESTINATION bin
      COMPONENT ${ARG_COMPONENT} OPTIONAL)
endfunction()

# Sets the variable to the labels of the area whose tests the current folder
# has: its path below tests, part by part.
function(espalier_area variable)
  file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" ";" parts "${path}")
  set(${variable} ${parts} PARENT_SCOPE)
endfunction()

# The target test-LABEL builds what the tests with this label run.
function(_espalier_build_by_label target)
  foreach(label ${ARGN})
    if(NOT TARGET test-${label})
      add_custom_target(test-${label})
    endif()
    add_dependencies(test-${label} ${target})
  endforeach()
endfunction()

# The next of the ten parts that nightly tests are dealt to: tests/run.sh
# --nightly=N runs one of them.
function(_espalier_next_part variable)
  get_property(count GLOBAL PROPERTY ESPALIER_NIGHTLY_COUNT)
  if(NOT count)
    set(count 0)
  endif()
  math(EXPR part "${count} % 10")
  math(EXPR count "${count} + 1")
  set_property(GLOBAL PROPERTY ESPALIER_NIGHTLY_COUNT ${count})
  set(${variable} ${part} PARENT_SCOPE)
endfunction()

# espalier_nightly_test(NAME [PROGRAM target] [TIMEOUT seconds] [PART n] COMMAND ...):
# a test of the next part; its program is built with the part alone.
function(espalier_nightly_test)
  cmake_parse_arguments(ARG "" "NAME;PROGRAM;TIMEOUT;PART" "COMMAND" ${ARGN})
  if(NOT DEFINED ARG_PART)
    _espalier_next_part(ARG_PART)
  endif()
  set(labels nightly nightly-${ARG_PART})
  foreach(label IN LISTS labels)
    if(NOT TARGET test-${label})
      add_custom_target(test-${label})
    endif()
  endforeach()
  if(ARG_PROGRAM)
    set_target_properties(${ARG_PROGRAM} PROPERTIES EXCLUDE_FROM_ALL ON)
    _espalier_build_by_label(${ARG_PROGRAM} ${labels})
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_COMMAND})
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${labels}"
      TIMEOUT ${ARG_TIMEOUT} SKIP_REGULAR_EXPRESSION "^skipped:")
endfunction()

# Links the product's libraries before the files of a test. Of an inline function
# that both have compiled, mold keeps the first copy: the product's, which is
# optimised and is what its programs run. (Other linkers keep the test's.)
function(_espalier_product_first target)
  set(archives)
  set(seen)
  set(left ${ARGN})
  while(left)
    list(POP_FRONT left library)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" library "${library}")
    if(library IN_LIST seen OR NOT TARGET ${library})
      continue()
    endif()
    list(APPEND seen ${library})
    get_target_property(type ${library} TYPE)
    get_target_property(folder ${library} SOURCE_DIR)
    get_target_property(is_imported ${library} IMPORTED)
    if(type STREQUAL "STATIC_LIBRARY" AND NOT is_imported
       AND NOT folder MATCHES "^${CMAKE_SOURCE_DIR}/tests/")
      list(APPEND archives $<TARGET_FILE:${library}>)
    endif()
    get_target_property(linked ${library} INTERFACE_LINK_LIBRARIES)
    if(linked)
      list(APPEND left ${linked})
    endif()
  endwhile()
  target_link_options(${target} PRIVATE ${archives})
endfunction()

function(espalier_test)
  cmake_parse_arguments(ARG "GRPC;SEQUENTIAL" "NAME;TIMEOUT;SHARDS;NIGHTLY"
                        "SRCS;DEPS;DEFINES;LABELS" ${ARGN})
  # tests/run.sh leaves these out: together they would take half an hour.
  if(ESPALIER_SANITIZE AND "exact" IN_LIST ARG_LABELS)
    return()
  endif()
  if(ARG_SEQUENTIAL)
    if(ESPALIER_SANITIZE STREQUAL "thread")
      return()
    endif()
    # What is not built by default is not looked at.
    if(NOT "nightly" IN_LIST ARG_LABELS)
      set_property(GLOBAL APPEND PROPERTY ESPALIER_SEQUENTIAL_TESTS ${ARG_NAME})
    endif()
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  espalier_area(area)
  list(APPEND ARG_LABELS ${area})
  list(REMOVE_DUPLICATES ARG_LABELS)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
    if(ESPALIER_SANITIZE)
      set(ARG_TIMEOUT 900)
    endif()
  endif()
  add_executable(${ARG_NAME} ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} espalier::test_main)
  _espalier_product_first(${ARG_NAME} ${ARG_DEPS})
  target_compile_definitions(${ARG_NAME} PRIVATE ${ARG_DEFINES})
  if("exact" IN_LIST ARG_LABELS)
    # Millions of draws. The headers were precompiled without optimisation.
    _espalier_test_settings(${ARG_NAME})
    target_compile_options(${ARG_NAME} PRIVATE -O2)
  else()
    _espalier_compile_test(${ARG_NAME} ${ARG_GRPC})
  endif()
  set_target_properties(${ARG_NAME} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
  if("nightly" IN_LIST ARG_LABELS)
    set_target_properties(${ARG_NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  _espalier_build_by_label(${ARG_NAME} ${ARG_LABELS})
  list(TRANSFORM ARG_SRCS REPLACE "^([^/].*)" "${CMAKE_CURRENT_SOURCE_DIR}/\\1")
  set_property(GLOBAL APPEND_STRING PROPERTY ESPALIER_TEST_PROGRAMS
      "${ARG_NAME}|${ARG_LABELS}|${ARG_SRCS}\n")
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(test ${ARG_NAME})
    if(ARG_SHARDS GREATER 1)
      set(test ${ARG_NAME}.${shard})
    endif()
    set(labels ${ARG_LABELS})
    if("nightly" IN_LIST ARG_LABELS)
      _espalier_next_part(part)
      list(APPEND labels nightly-${part})
      _espalier_build_by_label(${ARG_NAME} nightly-${part})
    endif()
    _espalier_add_shard(${test} ${shard} ${ARG_SHARDS} "${labels}")
  endforeach()
  if(ARG_NIGHTLY)
    math(EXPR last "${ARG_NIGHTLY} - 1")
    foreach(shard RANGE ${last})
      _espalier_next_part(part)
      _espalier_build_by_label(${ARG_NAME} nightly nightly-${part})
      _espalier_add_shard(${ARG_NAME}.nightly.${shard} ${shard} ${ARG_NIGHTLY}
          "nightly;nightly-${part}" ESPALIER_NIGHTLY=1)
    endforeach()
  endif()
endfunction()

# A test of ctest: one of `count` processes that share a program's cases. Those that
# may take long are first. Leaks of the system's libraries are not ours to mend.
macro(_espalier_add_shard test shard count labels)
  add_test(NAME ${test} COMMAND ${ARG_NAME})
  set_tests_properties(${test} PROPERTIES
      LABELS "${labels}" TIMEOUT ${ARG_TIMEOUT} COST ${ARG_TIMEOUT}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${count};GTEST_SHARD_INDEX=${shard};LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp;${ARGN}")
endmacro()
