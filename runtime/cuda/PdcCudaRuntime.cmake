# For the projects of generated CUDA stages: included by their CMake package PdcCudaRuntime.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  # CMake 3.25 does not know how CUDA 13 is asked for C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
add_subdirectory(${CMAKE_CURRENT_LIST_DIR} PdcRuntime)
