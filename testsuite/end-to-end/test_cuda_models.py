"""Every network's sources for GPUs, compiled and linked for sm_80 and sm_90 (no GPU is needed): what `tools/check --cuda` runs.

All are targets of one CMake project, so that the runtime is compiled once.
"""

import json
import os
import shutil

import pytest

import emulation
import pipeline
import test_cuda
from test_models import MODELS, OPTIONS, words

# Script and options.
NETWORKS = {name: (name, []) for name in ("lenet5", "fashion", "mlp", "vgg11", "resnet18", "vit", "gpt2", "bert")}
NETWORKS |= {name: (script, words(small)) for name, (script, _, small, _) in MODELS.items()}
PROJECT = """cmake_minimum_required(VERSION 3.25)
set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real)
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
project(networks LANGUAGES C CXX CUDA)
set(CMAKE_CXX_STANDARD 20)
include({package}/PdcCudaRuntimeConfig.cmake)
"""
TARGET = """add_executable({name} {sources})
target_link_libraries({name} PRIVATE PdcRuntime)
"""


def emit(name, folder):
    """Into three stages, in f32 and in bf16; what went wrong, if anything did."""
    script, options = NETWORKS[name]
    try:
        model = pipeline.export(script, folder / f"{name}.onnx", *options)
        for precision, project in (("fp32", folder / name), ("bf16", folder / f"{name}-bf16")):
            pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 3, "--stages", "1-1-1", "--minibatch", 8, "--microbatches", 2,
                         "--precision", precision, "-o", project, *OPTIONS.get(name, []))
    except AssertionError as error:
        return str(error)
    return ""


def sources(project):
    stages = json.loads((project / "plan.json").read_text())["stages"]
    assert len(stages) == 3
    return sorted(str(path) for path in project.glob("stage_?.c*")) + [str(project / "all_stages_main.cpp")]


@pytest.fixture(scope="module")
def build(request, tmp_path_factory):
    """The folder of the CMake project that was configured, and by network why it is not in it."""
    folder = tmp_path_factory.mktemp("networks")
    selected = [item.callspec.params["network"] for item in request.session.items
                if item.module is request.module and "build" in item.fixturenames]
    refused = {name: emit(name, folder) for name in selected}
    text = PROJECT.format(package=pipeline.BIN.parent / "lib/cmake/PdcCudaRuntime")
    for name in selected:
        for target in (name, f"{name}-bf16") if not refused[name] else ():
            text += TARGET.format(name=target, sources=" ".join(sources(folder / target)))
    (folder / "CMakeLists.txt").write_text(text)
    compiler = os.environ.get("CUDACXX") or shutil.which("nvcc") or emulation.NVCC
    pipeline.run("cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", env=os.environ | {"CUDACXX": str(compiler)})
    return folder / "build", refused


@pytest.mark.models
@emulation.with_nvcc
def test_measuring_programs_link(models, tmp_path):
    """Of pdc-profile: that of the units and that of the links, by the project's own CMake lists."""
    project = tmp_path / "project"
    test_cuda.measuring_project(models("lenet5"), project)
    compiler = os.environ.get("CUDACXX") or shutil.which("nvcc") or emulation.NVCC
    pipeline.run("cmake", "-G", "Ninja", "-S", project, "-B", project / "build", "-DCMAKE_CUDA_ARCHITECTURES=90-real",
                 env=os.environ | {"CUDACXX": str(compiler)})
    pipeline.run("cmake", "--build", project / "build", "--target", "all_stages", "links", timeout=3600)


@pytest.mark.models
@emulation.with_nvcc
@pytest.mark.parametrize("network", NETWORKS)
def test_links(network, build):
    folder, refused = build
    assert not refused[network], refused[network]
    built = pipeline.run("cmake", "--build", folder, "--target", network, f"{network}-bf16", timeout=3600)
    assert "warning" not in built.stdout + built.stderr, built.stdout + built.stderr
