# espalier_cuda_object(NAME kernels SRC kernels.cu): an object file of kernels
# for sm_90a, by nvcc: the CUDA toolkit's, or that of `deploy/setup.sh --nvcc`.
# Sets NAME_OBJECT. ESPALIER_CUDA_INCLUDE and ESPALIER_CUDART are for the host's
# side, ESPALIER_CUOBJDUMP shows machine code, where it is.

find_program(ESPALIER_NVCC_PROGRAM nvcc
    HINTS ${ESPALIER_CACHE_FOLDER}/nvcc/bin /usr/local/cuda/bin REQUIRED)
get_filename_component(nvcc_program ${ESPALIER_NVCC_PROGRAM} REALPATH)
get_filename_component(nvcc_root ${nvcc_program}/../.. ABSOLUTE)
find_path(ESPALIER_CUDA_INCLUDE cuda_runtime.h
    HINTS ${nvcc_root}/include /usr/local/cuda/include REQUIRED)
find_library(ESPALIER_CUDART cudart_static
    HINTS ${nvcc_root}/lib64 ${nvcc_root}/lib /usr/local/cuda/lib64 REQUIRED)
find_program(ESPALIER_CUOBJDUMP cuobjdump
    HINTS ${ESPALIER_CACHE_FOLDER}/nvcc/bin ${nvcc_root}/bin)

# A contraction of a product and a sum might differ between two kernels that
# inline the same step: those that are wanted are written as fmaf.
function(espalier_cuda_object)
  cmake_parse_arguments(ARG "" "NAME;SRC" "" ${ARGN})
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}.cuda.o)
  add_custom_command(
    OUTPUT ${object}
    COMMAND
      ${ESPALIER_NVCC_PROGRAM} -std=c++20 -O3 -fmad=false
      -gencode=arch=compute_90a,code=sm_90a -Werror all-warnings
      -I${CMAKE_SOURCE_DIR} -I${ESPALIER_CUDA_INCLUDE}
      -ccbin ${CMAKE_CXX_COMPILER} -Xcompiler=-fPIE
      -Xcompiler=-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=
      -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SRC} -o ${object}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SRC}
    DEPFILE ${object}.d
    COMMENT "Compiling kernels ${ARG_SRC} with nvcc"
    VERBATIM
  )
  set_source_files_properties(${object} PROPERTIES
      EXTERNAL_OBJECT ON GENERATED ON)
  set(${ARG_NAME}_OBJECT ${object} PARENT_SCOPE)
endfunction()
