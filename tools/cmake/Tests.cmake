# pdc_add_test(NAME SOURCES a.cpp ... LIBS x ... [FAST]): a GoogleTest binary, each of its tests
# known to ctest. FAST: it computes much itself and is optimized; the others compile in two thirds of the
# time without.
if(PDC_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
function(pdc_add_test name)
  if(NOT PDC_TESTS)
    return()
  endif()
  cmake_parse_arguments(TEST "FAST" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  if(TEST_FAST)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Sanitize>:-O1>)
  else()
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  endif()
  target_link_libraries(${name} PRIVATE ${TEST_LIBS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE PDC_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                             PDC_BINARY_DIR="${CMAKE_BINARY_DIR}")
  add_test(NAME ${name} COMMAND ${name})
endfunction()
