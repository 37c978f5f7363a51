# Target PdcMLIR: MLIR 19, linked statically so that pdc runs where MLIR is not installed. Sanitizer
# builds use the shared library: the static one was built without sanitizers and its allocators give
# false alarms.
list(APPEND CMAKE_PREFIX_PATH /usr/lib/llvm-19)
find_package(MLIR 19.1 REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
# Newer policy rewrites depfile paths wrongly for mlir_tablegen and reruns it at every build.
cmake_policy(SET CMP0116 OLD)
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(PdcMLIR INTERFACE)
target_include_directories(PdcMLIR SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_compile_definitions(PdcMLIR INTERFACE ${LLVM_DEFINITIONS})

# Every static archive that `component` needs, as files, without the monolithic libLLVM.
function(pdc_collect_archives result)
  set(seen "")
  set(pending ${ARGN})
  while(pending)
    list(POP_FRONT pending component)
    if(component IN_LIST seen OR component STREQUAL "LLVM" OR NOT TARGET ${component})
      continue()
    endif()
    list(APPEND seen ${component})
    get_target_property(links ${component} INTERFACE_LINK_LIBRARIES)
    if(links)
      string(REGEX REPLACE "\\$<LINK_ONLY:([^>]*)>" "\\1" links "${links}")
      list(APPEND pending ${links})
    endif()
  endwhile()
  set(files "")
  foreach(component ${seen})
    get_target_property(type ${component} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND files $<TARGET_FILE:${component}>)
    endif()
  endforeach()
  set(${result} ${files} PARENT_SCOPE)
endfunction()

if(PDC_SANITIZE OR PDC_SANITIZE_THREAD)
  target_link_libraries(PdcMLIR INTERFACE MLIR LLVM)
else()
  pdc_collect_archives(archives MLIRIR MLIRParser MLIRPass MLIRTransforms MLIRTransformUtils
    MLIRFuncDialect MLIROptLib MLIRDebug MLIRSupport
    LLVMSupport LLVMDemangle LLVMCore LLVMBinaryFormat LLVMRemarks LLVMTargetParser
    LLVMBitstreamReader)
  target_link_libraries(PdcMLIR INTERFACE -Wl,--start-group ${archives} -Wl,--end-group
    -Wl,--gc-sections -lz -ldl -lpthread)
endif()
