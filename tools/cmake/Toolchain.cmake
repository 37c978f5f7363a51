# ccache and lld where they are; nothing needs them.
find_program(CCACHE ccache)
if(CCACHE)
  # With precompiled headers it wants to be told that they stand for their text.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()
if(EXISTS /usr/lib/llvm-19/bin/ld.lld)
  add_link_options(-fuse-ld=lld -B/usr/lib/llvm-19/bin)
endif()
if(PDC_SANITIZE OR PDC_SANITIZE_THREAD)
  add_compile_definitions(PDC_SANITIZED)
  # Loops that are watched need not be vectors.
  add_compile_options($<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>)
endif()
if(PDC_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
elseif(PDC_SANITIZE_THREAD)
  add_compile_options(-fsanitize=thread -g1)
  add_link_options(-fsanitize=thread)
endif()
