"""ONNX's own node tests through import, passes, sources, the C++ compiler and the programs it makes."""

import collections
import os
import pathlib
import re
import shutil

import onnx
import pytest

import pipeline
import test_control_flow
import test_newest_operators
import test_operators
import test_sampling
import test_stopped_gradients

DATA = pathlib.Path("/usr/share/libonnx-testdata/data/node")

# What the quick check compiles: one test of each kind of kernel.
SOME = """test_relu test_add_bcast test_and_bcast3v2d test_argmax_default_axis_example test_averagepool_2d_pads
test_batchnorm_example test_batchnorm_example_training_mode test_concat_2d_axis_1 test_conv_with_strides_padding
test_div_uint8 test_mod_broadcast test_mod_int64_fmod test_mod_mixed_sign_int64 test_mod_uint8
test_gather_1 test_gemm_default_matrix_bias test_gradient_of_add test_gradient_of_add_and_mul test_layer_normalization_2d_axis1 test_logsoftmax_axis_1 test_matmul_3d
test_maxpool_2d_default test_reduce_sum_keepdims_example test_reshape_reduced_dims test_sce_mean
test_slice_neg_steps test_softmax_axis_0 test_split_equal_parts_2d test_transpose_all_permutations_3
test_where_example""".split()

# The optimizers, but for test_adam_multiple, whose values contradict its node, gradients and statistics.
TRAINING = """test_adagrad test_adagrad_multiple test_adam test_momentum test_momentum_multiple
test_nesterov_momentum test_gradient_of_add test_gradient_of_add_and_mul test_batchnorm_example_training_mode
test_batchnorm_epsilon_training_mode""".split()

INDICES = ["test_maxpool_with_argmax_2d_precomputed_pads", "test_maxpool_with_argmax_2d_precomputed_strides"]

REASONS = {"this operator is not supported": "operator not supported", "supported from opset": "opset",
           "lement type": "element type", "must be known": "shape known at run time only"}


def read_results(path):
    return [line.split("\t") for line in path.read_text().splitlines()]


def reason_of(what, why):
    if what == "otherwise":
        return "other values on purpose"
    return next((reason for text, reason in REASONS.items() if text in why), "no kernel or rule for this form")


def run_tests(work, names, batch):
    """(passed, of these known at compile time, wrong, not run) by the names of the tests."""
    folder = work / "sources"
    pipeline.run(pipeline.BIN / "pdc-node-sources", folder, batch, *names)
    pipeline.run("cmake", "-G", "Ninja", "-S", pipeline.SOURCE / "testsuite/nodes/run", "-B", work / "build",
                 f"-DCASES={folder}", f"-DPdcRuntime_DIR={pipeline.BIN.parent}/lib/cmake/PdcRuntime")
    pipeline.run("cmake", "--build", work / "build")
    pipeline.run(work / "build" / "run-nodes", folder)
    passed, known, wrong, left = set(), set(), {}, {}
    for name, what, why in read_results(folder / "compiled.txt") + read_results(folder / "results.txt"):
        if what in ("passed", "known"):
            passed.add(name)
        if what == "known":
            known.add(name)
        elif what == "wrong":
            wrong[name] = why
        elif what in ("refused", "otherwise"):
            left[name] = (reason_of(what, why), why)
    return passed, known, wrong, left


def operators_claimed():
    """Those of ONNX in the generated table, which has their operator sets."""
    rows = (pipeline.SOURCE / "compiler/operators/README.md").read_text().splitlines()
    return {match[1] for row in rows if (match := re.match(r"\| (\S+) \| \d+-\d+ \|", row))}


def operators_in(tests):
    models = (next(DATA.parent.glob(f"*/{name}/model.onnx")) for name in tests)
    nodes = (node for model in models for node in onnx.load(model, load_external_data=False).graph.node)
    return {f"{node.domain}.{node.op_type}".removeprefix(".") for node in nodes}


def operators_compared_with_pytorch():
    """And with random numbers that are drawn again in numpy."""
    forms = [*test_sampling.FORMS, *test_sampling.FOURIER]
    for groups in (test_operators.FORMS, test_newest_operators.FORMS):
        forms += [form for group in groups.values() for form in group]
    others = (test_sampling.RANDOM, test_sampling.WINDOWS, test_control_flow.COMPOSED, test_stopped_gradients.STOPPING, test_newest_operators.BITS)
    return {form.op for form in forms}.union(*others)


def adam_of_its_values(folder):
    """test_adam_multiple, naming the epsilon that its expected values are made with."""
    test = pathlib.Path(shutil.copytree(DATA / "test_adam_multiple", folder / "test_adam_of_named_epsilon"))
    model = onnx.load(test / "model.onnx")
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("epsilon", 0.01))
    onnx.save(model, test / "model.onnx")
    return test


needs_data = pytest.mark.skipif(not DATA.exists(), reason="needs libonnx-testdata")


@needs_data
def test_some(tmp_path):
    tests = [*SOME, adam_of_its_values(tmp_path)]
    passed, _, wrong, left = run_tests(tmp_path, tests, 12)
    assert not wrong and not left
    assert len(passed) == len(tests)


@needs_data
def test_all(tmp_path, record_property):
    passed, known, wrong, left = run_tests(tmp_path, [], 32)
    reasons = collections.Counter(reason for reason, _ in left.values())
    listed = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    summary = f"onnx node tests: {len(passed)} passed, {len(left)} not run ({listed})"
    if known:
        summary += f"; {len(known)} of those passed are numbers at compile time"
    record_property("summary", summary)
    if folder := os.environ.get("PDC_NODE_TESTS"):
        lines = [f"{name}: {reason}: {why}\n" for name, (reason, why) in sorted(left.items())]
        pathlib.Path(folder).write_text(summary + "\n" + "".join(lines))
    assert not wrong, summary
    must = [name for name in os.listdir(DATA) if name.startswith(("test_sce_", "test_nllloss_"))]
    assert passed.issuperset([*must, *TRAINING, *INDICES]), summary
    assert len(passed) >= 650, summary
    untested = operators_claimed() - operators_in(passed) - operators_compared_with_pytorch()
    assert not untested, f"no compiled program has been compared with ONNX or PyTorch for {', '.join(sorted(untested))}"
