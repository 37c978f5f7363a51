"""Loops over functions become vectors on processors whose vectors have no masks, as stages are compiled."""

import re

import pytest

import pipeline

BODIES = {"exp": "exponential(x[i])", "tanh": "hyperbolicTangent(x[i])", "erf": "errorFunction(x[i])",
          "sigmoid": "1 / (1 + exponential(-x[i]))"}
LOOP = """#include "runtime/kernels/Elementwise.h"
using namespace pdc::runtime;
void loop(long n, float *__restrict y, const float *__restrict x) {
  for (long i = 0; i < n; ++i)
    y[i] = BODY;
}
"""


@pytest.mark.parametrize("function", BODIES)
def test_loops_become_vectors_without_masks(function, tmp_path):
    project = pipeline.compile_model(pipeline.MODELS / "fashion.onnx", tmp_path / "project", "--minibatch", 2)
    flags, = re.findall(r'set\(CMAKE_CXX_FLAGS_RELEASE "(.*)"\)', (project / "CMakeLists.txt").read_text())
    source = tmp_path / "loop.cpp"
    source.write_text(LOOP.replace("BODY", BODIES[function]))
    words = [*flags.replace("-march=native", "-march=x86-64-v3").split(), "-std=c++20", "-fopenmp", "-I", pipeline.SOURCE]
    told = pipeline.run("g++", *words, "-fopt-info-vec", "-c", source, "-o", tmp_path / "loop.o").stderr
    assert re.search(r"loop\.cpp:4:\d+: optimized: loop vectorized using 32 byte vectors", told), told
