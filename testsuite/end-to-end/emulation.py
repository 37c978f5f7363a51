"""Sources for GPUs, run without one: on the host's threads (testsuite/cuda), where a copy or a kernel that does not wait for
what it needs gives wrong losses."""

import pathlib
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

import pipeline

HOST = pipeline.BIN.parent / "testsuite" / "cuda"
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")

on_host = pytest.mark.skipif(not (HOST / "link.txt").exists(), reason="no headers of CUDA and cuDNN")
with_nvcc = pytest.mark.skipif(not NVCC, reason="no nvcc")


def emit(model, folder, *options, workers=1):
    pipeline.run(pipeline.BIN / "pdc", model, "--gpus", workers, "-o", folder, *options)
    return pathlib.Path(folder)


def build_for_host(project, main="all_stages"):
    """all_stages, its kernels as functions of the host, or a program of the project that has no stages."""
    flags = ["-std=c++20", "-O1", "-ffp-contract=off", f"-I{pipeline.SOURCE}", *(HOST / "include.txt").read_text().split()]
    # A GPU faults where four neighbours are read from an address that is no multiple of their size.
    kernels = ["-x", "c++", "-include", str(pipeline.SOURCE / "testsuite" / "cuda" / "HostThreads.h"), "-fsanitize=alignment",
               "-fsanitize-undefined-trap-on-error"]
    sources = [s for s in sorted(project.glob("stage_*.c*")) if not s.stem.endswith("_main")] if main == "all_stages" else []

    def compile_one(source):
        compiled = source.with_suffix(source.suffix + ".o")
        pipeline.run("g++", *flags, *(kernels if source.suffix == ".cu" else []), "-c", source, "-o", compiled)
        return compiled

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, [*sources, project / f"{main}_main.cpp"]))
    program = project / ("on_host" if main == "all_stages" else f"{main}_on_host")
    pipeline.run("g++", *objects, "-o", program, *(HOST / "link.txt").read_text().split())
    return program


def train_on_host(project, work, *options, **given):
    """Trains as pipeline.train_by does, the ranks as threads; the first time it compiles them."""
    program = project / "on_host"
    if not program.exists():
        build_for_host(project)
    return pipeline.train_by([program, "--weights", project / "weights.safetensors"], work, *options, cwd=project, **given)


def compile_model(model, folder, *options, workers=1):
    """pipeline.compile_model, for GPUs: in the precision of the processor, if the options name none."""
    if not (HOST / "link.txt").exists():
        pytest.skip("no headers of CUDA and cuDNN")
    precision = [] if "--precision" in options else ["--precision", "fp32"]
    return emit(model, folder, *options, *precision, workers=workers)


def train(project, work, *options, transport="local", **given):
    """pipeline.train, without pdc-run, whose processes need GPUs."""
    if transport != "local":
        pytest.skip(f"ranks over {transport} are emulated by test_nccl.py alone")
    return train_on_host(project, work, *options, **given)
