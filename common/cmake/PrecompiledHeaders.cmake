# What each kind of target parses once. A header belongs here if most files of
# the kind include it, directly or not. The preset `dev` does without, so that a
# file that includes too little shows there.

set(_espalier_product_headers
    <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <filesystem> <functional>
    <map> <memory> <optional> <set> <sstream> <string> <string_view> <thread>
    <unordered_map> <utility> <variant> <vector>
    <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h>
    <absl/functional/any_invocable.h> <absl/functional/function_ref.h>
    <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h>
    <absl/strings/str_format.h> <absl/strings/str_join.h> <absl/strings/str_split.h>
    <absl/time/time.h> <absl/types/span.h>)
set(_espalier_wire_headers
    <google/protobuf/reflection_ops.h> <google/protobuf/wire_format.h>
    <grpcpp/channel.h> <grpcpp/client_context.h> <grpcpp/server_context.h>
    <grpcpp/support/byte_buffer.h> <grpcpp/support/client_callback.h>
    <grpcpp/support/server_callback.h> <grpcpp/support/status.h>
    <espalier/v1/config.pb.h> <espalier/v1/drafter.pb.h> <espalier/v1/inference.pb.h>
    <espalier/v1/verifier.pb.h>)
set(_espalier_test_headers <gmock/gmock.h> <gtest/gtest.h>)

# espalier_headers(KIND [HOT] [TEST] [WIRE] HEADERS <a> <b> DEPS ...): the target
# espalier_headers_KIND. WIRE: needs what protoc writes. The library of the messages
# is compiled with these headers, so that they cannot link it.
function(espalier_headers kind)
  cmake_parse_arguments(ARG "HOT;TEST;WIRE" "" "HEADERS;DEPS" ${ARGN})
  set(target espalier_headers_${kind})
  set(empty ${CMAKE_BINARY_DIR}/headers_${kind}.cc)
  if(NOT EXISTS ${empty})
    file(WRITE ${empty} "// Precompiled headers need a source.\n")
  endif()
  add_library(${target} OBJECT ${empty})
  target_link_libraries(${target} PRIVATE ${ARG_DEPS})
  if(ARG_TEST)
    _espalier_test_settings(${target})
  elseif(ARG_HOT)
    _espalier_settings(${target})
  else()
    _espalier_product_settings(${target})
  endif()
  if(ARG_WIRE)
    list(PREPEND ARG_HEADERS ${_espalier_wire_headers})
    target_link_libraries(${target} PRIVATE gRPC::grpc++ protobuf::libprotobuf)
    target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/proto)
    add_dependencies(${target} generated_headers)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  target_precompile_headers(${target} PRIVATE ${ARG_HEADERS})
endfunction()

set(_absl absl::flat_hash_map absl::flat_hash_set absl::any_invocable absl::function_ref
    absl::statusor absl::str_format absl::time absl::span)
espalier_headers(hot HOT HEADERS ${_espalier_product_headers} DEPS ${_absl})
espalier_headers(product WIRE HEADERS ${_espalier_product_headers} DEPS ${_absl})
if(ESPALIER_TESTS)
  espalier_headers(test TEST
      HEADERS ${_espalier_product_headers} ${_espalier_test_headers}
      DEPS ${_absl} GTest::gmock)
  espalier_headers(grpc_test TEST WIRE
      HEADERS ${_espalier_product_headers} ${_espalier_test_headers}
      DEPS ${_absl} GTest::gmock)
endif()
