# espalier_library(NAME token_tree SRCS a.cc HDRS a.h DEPS espalier::base)
# espalier_binary(NAME espalier-verifier SRCS main.cc DEPS ...)
# espalier_test(NAME token_tree_test SRCS a_test.cc DEPS ... [DEFINES A="b"]
#               [LABELS integration] [TIMEOUT seconds] [SEQUENTIAL])
#
# SEQUENTIAL: starts no thread, so ThreadSanitizer does without it.
# A library NAME becomes the target espalier_NAME and the alias espalier::NAME.
# DEPS are public; a library without SRCS is an interface library.

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
    target_link_options(${target} PUBLIC -fsanitize=${ESPALIER_SANITIZE})
  endif()
endfunction()

function(espalier_library)
  cmake_parse_arguments(ARG "" "NAME" "HDRS;SRCS;DEPS" ${ARGN})
  set(target espalier_${ARG_NAME})
  if(ARG_SRCS)
    add_library(${target} STATIC ${ARG_SRCS} ${ARG_HDRS})
    target_link_libraries(${target} PUBLIC ${ARG_DEPS})
    _espalier_settings(${target})
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${target} INTERFACE ${ARG_DEPS})
  endif()
  add_library(espalier::${ARG_NAME} ALIAS ${target})
endfunction()

function(espalier_binary)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS})
  _espalier_settings(${ARG_NAME})
  # Installed programs find libtorch where this build has it, or in ../lib.
  set_target_properties(${ARG_NAME} PROPERTIES
      INSTALL_RPATH "$ORIGIN/../lib" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS ${ARG_NAME} RUNTIME DESTINATION bin)
endfunction()

# Sets the variable to the labels of the area whose tests the current folder
# has: its path below tests, part by part.
function(espalier_area variable)
  file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" ";" parts "${path}")
  set(${variable} ${parts} PARENT_SCOPE)
endfunction()

# gtest_discover_tests cannot pass on a list.
function(_espalier_label_discovered target labels)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}_labels.cmake)
  file(WRITE ${script}
      "foreach(test IN LISTS ${target}_TESTS)\n"
      "  set_tests_properties(\"\${test}\" PROPERTIES LABELS \"${labels}\")\n"
      "endforeach()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})
endfunction()

include(GoogleTest)
function(espalier_test)
  cmake_parse_arguments(ARG "SEQUENTIAL" "NAME;TIMEOUT" "SRCS;DEPS;DEFINES;LABELS"
                        ${ARGN})
  # tests/run.sh leaves these out: together they would take half an hour.
  if(ESPALIER_SANITIZE AND "exact" IN_LIST ARG_LABELS)
    return()
  endif()
  if(ARG_SEQUENTIAL)
    if(ESPALIER_SANITIZE STREQUAL "thread")
      return()
    endif()
    set_property(GLOBAL APPEND PROPERTY ESPALIER_SEQUENTIAL_TESTS ${ARG_NAME})
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  espalier_area(area)
  list(APPEND ARG_LABELS ${area})
  list(REMOVE_DUPLICATES ARG_LABELS)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
    if(ESPALIER_SANITIZE)
      set(ARG_TIMEOUT 600)
    endif()
  endif()
  add_executable(${ARG_NAME} ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} espalier::test_main)
  target_compile_definitions(${ARG_NAME} PRIVATE ${ARG_DEFINES})
  _espalier_settings(${ARG_NAME})
  # Half of the time of a build went into optimising what runs once, and into
  # looking for undefined behaviour in the macros of GoogleTest.
  target_compile_options(${ARG_NAME} PRIVATE -O0)
  # A test states the fields that it is about.
  target_compile_options(${ARG_NAME} PRIVATE -Wno-missing-field-initializers)
  # {{x}} is a list of one.
  target_compile_options(${ARG_NAME} PRIVATE
      $<$<CXX_COMPILER_ID:Clang>:-Wno-braced-scalar-init>)
  if(ESPALIER_SANITIZE MATCHES "undefined")
    target_compile_options(${ARG_NAME} PRIVATE -fno-sanitize=undefined)
  endif()
  set_target_properties(${ARG_NAME} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
  if(ESPALIER_SANITIZE)
    # A program at a time: a sanitized one takes longer to start than most of
    # its tests. Leaks of the system's libraries are not ours to mend.
    add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
    set_tests_properties(${ARG_NAME} PROPERTIES
        LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
        ENVIRONMENT LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp)
  else()
    gtest_discover_tests(${ARG_NAME} DISCOVERY_TIMEOUT 120
        PROPERTIES TIMEOUT ${ARG_TIMEOUT})
    _espalier_label_discovered(${ARG_NAME} "${ARG_LABELS}")
  endif()
endfunction()
