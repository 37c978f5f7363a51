"""Where the projects of stages for GPUs find CUDA's libraries: configured, not built."""

import os

import emulation
import pipeline

PROJECT = """cmake_minimum_required(VERSION 3.25)
set(CMAKE_CUDA_ARCHITECTURES 90-real)
project(one LANGUAGES C CXX CUDA)
include({package}/PdcCudaRuntimeConfig.cmake)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE PdcRuntime)
"""


@emulation.with_nvcc
def test_libraries_are_found_as_they_are_used(tmp_path):
    """Each from the folder of its headers, such as pip's wheels, which have no names without versions. Of what cuDNN compiles
    with, both libraries are loaded with the program: it opens them by names that the system's folders need not have."""
    for path in ("wheel/include/cudnn.h", "wheel/lib/libcudnn.so.9", "program.cpp"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(package=pipeline.BIN.parent / "lib/cmake/PdcCudaRuntime"))
    build = tmp_path / "build"
    pipeline.run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", build, f"-DCMAKE_PREFIX_PATH={tmp_path / 'wheel'}",
                 env=os.environ | {"CUDACXX": str(emulation.NVCC)})
    cache = (build / "CMakeCache.txt").read_text().splitlines()
    assert f"PDC_CUDNN:FILEPATH={tmp_path}/wheel/lib/libcudnn.so.9" in cache
    assert f"PDC_CUDNN_INCLUDE:PATH={tmp_path}/wheel/include" in cache
    lines = [line for line in (build / "build.ninja").read_text().splitlines() if "LINK_LIBRARIES" in line and "--no-as-needed" in line]
    assert len(lines) == 1
    kept = lines[0].split("--no-as-needed", 1)[1].split("--pop-state", 1)[0]
    assert "libnvrtc.so" in kept and "libnvrtc-builtins.so" in kept, lines[0]
