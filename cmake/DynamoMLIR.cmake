# Finds LLVM and MLIR 22 and requires clang++: implicit TypeIDs are derived
# from __PRETTY_FUNCTION__. g++ spells it differently from the clang++ that
# built libMLIR, so look-ups of traits would fail silently.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "dynamo must be built with clang++ (got ${CMAKE_CXX_COMPILER_ID}): "
                      "set CMAKE_CXX_COMPILER to clang++-22")
endif()

find_package(MLIR REQUIRED CONFIG HINTS "$ENV{MLIR_SYS_220_PREFIX}/lib/cmake/mlir" /usr/lib/llvm-22/lib/cmake/mlir)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "dynamo needs LLVM/MLIR 22, found ${LLVM_PACKAGE_VERSION}")
endif()

list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
add_compile_options(-fno-exceptions -fno-rtti -Wall -Wno-unused-parameter)
add_definitions(${LLVM_DEFINITIONS})
