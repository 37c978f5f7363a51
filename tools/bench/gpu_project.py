"""What tools/gpu-check prepares beside networks: the runtime, what it needs, and the CMake project of all programs."""
import pathlib
import shutil
import subprocess


def third_party(folder):
    """Headers and zlib, which the runtime needs and a GPU's machine may lack."""
    for package in ("nlohmann-json3-dev", "libcli11-dev", "zlib1g-dev"):
        for line in subprocess.run(["dpkg", "-L", package], check=True, capture_output=True, text=True).stdout.splitlines():
            path = pathlib.Path(line)
            if path.is_file() and path.suffix in (".h", ".hpp", ".cmake", ".a") and "doc" not in path.parts:
                # Not every system looks into folders that are named after the processor.
                parts = [part for part in path.relative_to("/usr").parts if not part.endswith("-linux-gnu")]
                target = folder.joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)


def copy_sources(folder, sources):
    shutil.copytree(sources / "runtime", folder / "runtime")
    tests = folder / "testsuite" / "cuda"
    tests.mkdir(parents=True)
    for name in ("AttentionCheck.h", "AttentionCheck.cpp", "AttentionCheckMain.cpp", "DeviceTensor.h", "ProductCheckMain.cpp",
                 "ProductTerms.h", "ProductTerms.cpp"):
        shutil.copy(sources / "testsuite" / "cuda" / name, tests)
    config = folder / "lib" / "cmake" / "PdcCudaRuntime" / "PdcCudaRuntimeConfig.cmake"
    config.parent.mkdir(parents=True)
    config.write_text("include(${CMAKE_CURRENT_LIST_DIR}/../../../runtime/cuda/PdcCudaRuntime.cmake)\n")
    third_party(folder / "third_party")


def write_project(folder, projects):
    """One CMake project for all of them: the runtime is compiled once."""
    lines = ["cmake_minimum_required(VERSION 3.25)", "if(NOT CMAKE_CUDA_ARCHITECTURES)",
             "  set(CMAKE_CUDA_ARCHITECTURES native)", "endif()", "set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)",
             "project(gpu_check LANGUAGES C CXX CUDA)", "set(CMAKE_CXX_STANDARD 20)",
             "if(NOT CMAKE_BUILD_TYPE)", "  set(CMAKE_BUILD_TYPE Release)", "endif()",
             "list(PREPEND CMAKE_PREFIX_PATH ${CMAKE_CURRENT_SOURCE_DIR}/third_party)",
             "include(lib/cmake/PdcCudaRuntime/PdcCudaRuntimeConfig.cmake)"]
    for project in projects:
        name = pathlib.Path(project).name
        lines += [f"file(GLOB sources ${{CMAKE_CURRENT_SOURCE_DIR}}/{project}/stage_*.c*)",
                  'list(FILTER sources EXCLUDE REGEX "_main.cpp$")',
                  f"add_executable({name} ${{sources}} {project}/all_stages_main.cpp)",
                  f"target_link_libraries({name} PRIVATE PdcRuntime)"]
    for name, sources in (("attention_check", ("AttentionCheck", "AttentionCheckMain")), ("product_check", ("ProductCheckMain", "ProductTerms"))):
        lines += [f"add_executable({name} {' '.join(f'testsuite/cuda/{source}.cpp' for source in sources)})",
                  f"target_link_libraries({name} PRIVATE PdcRuntime)",
                  f"target_include_directories({name} SYSTEM PRIVATE ${{PDC_CUBLASLT_INCLUDE}} ${{PDC_CUDNN_INCLUDE}})"]
    (folder / "CMakeLists.txt").write_text("\n".join(lines) + "\n")
