"""Wrong input gives one clear error and exit 1, wrong usage exit 2; never a crash, never a half-written folder."""

import json
import os
import random
import shutil
import subprocess

import numpy
import onnx
import onnx.numpy_helper
import pytest

import pipeline
import safetensors


def refused(*command, status=1, says=()):
    result = pipeline.run(*command, check=False)
    text = result.stdout + result.stderr
    assert result.returncode == status, text[-2000:]
    assert "error: " in result.stderr, text[-2000:]
    for trace in ("terminate called", "Assertion", "PLEASE submit", "Segmentation", "stack backtrace"):
        assert trace not in text
    for part in says:
        assert part in result.stderr, result.stderr
    return result.stderr


def pdc(model, folder, *options, **expected):
    return refused(pipeline.BIN / "pdc", model, "--gpus", 2, "--device", "cpu", "-o", folder, *options, **expected)


@pytest.fixture
def project(tmp_path):
    return tmp_path / "project"


def test_missing_file(project):
    pdc("/nonexistent.onnx", project, says=["/nonexistent.onnx"])
    assert not project.exists()


@pytest.mark.parametrize("seed", range(12))
def test_broken_models(seed, models, project, tmp_path):
    data = bytearray(models("lenet5").read_bytes())
    generator = random.Random(seed)
    if seed % 3 == 0:
        data = data[:generator.randrange(len(data))]
    elif seed % 3 == 1:
        data = bytearray(generator.randbytes(4096))
    else:
        for _ in range(200):
            data[generator.randrange(2000)] = generator.randrange(256)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(data)
    result = pipeline.run(pipeline.BIN / "pdc", broken, "--gpus", 2, "--device", "cpu", "--minibatch", 8,
                          "-o", project, check=False)
    assert result.returncode in (0, 1), result.stderr  # flipped bits may leave a valid model
    assert (result.returncode == 0) != ("error: " in result.stderr)


def test_unknown_operator(project, tmp_path):
    node = onnx.helper.make_node("NonMaxSuppression", ["x", "x"], ["y"], name="the_node")
    value = lambda name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3])
    graph = onnx.helper.make_graph([node], "g", [value("x")], [value("y")])
    path = tmp_path / "unknown.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), str(path))
    pdc(path, project, says=["the_node", "NonMaxSuppression", "13"])


def test_hostile_names_stay_data(models, tmp_path):
    """A node called like code compiles, runs and executes nothing."""
    model = onnx.load(str(models("mlp")))
    evil = 'x"); system("touch ' + str(tmp_path / "owned") + '"); //*/ \\'
    for index, node in enumerate(model.graph.node):
        node.name = f"{evil}{index}\n"
    path = tmp_path / "hostile.onnx"
    onnx.save(model, str(path))
    project = pipeline.compile_model(path, tmp_path / "project", "--minibatch", 8, "--microbatches", 2, "--stages", "1-1",
                                     workers=2)
    images, labels = pipeline.draw_images(tmp_path, 16, (784,), 10)
    pipeline.train(project, tmp_path / "run", data=[f"input={images}", f"labels={labels}"], steps=1)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("options,status,says", [
    (["--minibatch", "0"], 2, ["minibatch"]),
    (["--minibatch", "7", "--microbatches", "2"], 2, ["7"]),
    (["--loss", "hinge", "--minibatch", "8"], 1, ["hinge", "cross_entropy"]),
    (["--optimizer", "sgd,speed=3", "--minibatch", "8"], 2, ["speed"]),
    (["--schedule", "nonsense", "--minibatch", "8"], 2, ["nonsense", "1f1b"]),
    (["--memory", "1K", "--minibatch", "8"], 1, ["memory"]),
    (["--topology", "/nonexistent.json", "--minibatch", "8"], 1, ["/nonexistent.json"]),
    (["--profile", "/nonexistent.json", "--minibatch", "8"], 1, ["/nonexistent.json"]),
    (["--stages", "/nonexistent", "--minibatch", "8"], 2, ["/nonexistent"]),
])
def test_options(options, status, says, models, project):
    pdc(models("lenet5"), project, *options, status=status, says=says)


def test_inputs_that_no_file_gives(project, tmp_path):
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("Cast", ["scale"], ["s"], to=floats), helper.make_node("ReduceMean", ["s"], ["m"], keepdims=0),
             helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Mul", ["p", "m"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", floats, ["batch", 3]), helper.make_tensor_value_info("scale", onnx.TensorProto.INT8, ["batch"])]
    graph = helper.make_graph(nodes, "scaled", inputs, [helper.make_tensor_value_info("y", floats, ["batch", 2])],
                              [onnx.numpy_helper.from_array(numpy.ones((3, 2), "float32"), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), tmp_path / "scaled.onnx")
    pdc(tmp_path / "scaled.onnx", project, "--minibatch", 8, "--microbatches", 2, "--loss", "mse",
        says=["input 'scale' holds i8[4], which no data file gives"])


@pytest.mark.parametrize("text,says", [
    ('{"stages": []}', "{}: names no node, expected an object of node name to stage, or a plan.json"),
    ('{"/fc1/Gemm": 0, "nothing": 1}', "--stages {}: stages: the model has no node 'nothing'"),
    ('{"stages": [{"id": 0, "replicas": 2, "nodes": ["/fc1/Gemm"]}, {"id": 1, "replicas": 1, "nodes": ["/fc2/Gemm"]}]}',
     "--stages {}: stages: 2 stages are named, expected one for each of 3 workers; without --stages the planner cuts"),
])
def test_files_of_stages(text, says, project, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(text)
    refused(pipeline.BIN / "pdc", pipeline.MODELS / "tiny.onnx", "--gpus", 3, "--device", "cpu", "--minibatch", 8,
            "--stages", path, "-o", project, says=["error: " + says.format(path)])


def test_annotated_path(project, tmp_path):
    """Judged before the model is read, so that nothing is planned for it and nothing left beside it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    for path, says in (("folder", "is a folder, expected the path of a file; add a name, as in stages.onnx"),
                       ("project", "is a folder, expected the path of a file"),
                       ("link", "is a symbolic link, which would be replaced; expected a regular file or a new path"),
                       ("pipe", "is no regular file, which would be replaced"),
                       ("none/x.onnx", f"there is no folder '{tmp_path}/none'; make it, or choose another place")):
        text = pdc(pipeline.MODELS / "tiny.onnx", project, "--minibatch", 8, "--annotated", tmp_path / path,
                   says=[f"error: --annotated '{tmp_path / path}': {says}"])
        assert "reading" not in text
    assert sorted(os.listdir(tmp_path)) == before


def test_unknown_option(models):
    result = pipeline.run(pipeline.BIN / "pdc", models("lenet5"), "--gpus", 2, "--no-such-option", check=False)
    assert result.returncode == 2
    assert "--no-such-option" in result.stderr


def test_symbolic_batch_needs_minibatch(models, project):
    pdc(models("lenet5"), project, says=["--minibatch"])


def test_more_stages_than_units(models, project):
    refused(pipeline.BIN / "pdc", models("mlp"), "--gpus", 64, "--schedule", "1f1b", "--device", "cpu", "--minibatch", 64,
            "--microbatches", 64, "-o", project, says=["64"])


@pytest.fixture(scope="module")
def built(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    project = pipeline.compile_model(models("mlp"), folder / "project", "--minibatch", 8, "--microbatches", 2, "--stages", "1-1",
                                     workers=2)
    images, labels = pipeline.draw_images(folder, 16, (784,), 10)
    pipeline.train(project, folder / "run", data=[f"input={images}", f"labels={labels}"], steps=1)
    return project, images, labels


@pytest.mark.parametrize("transport", ["local", "mpi"])
@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00\xff\xffgarbage", b"\x00\x00\x08\x03\xff\xff\xff\xff",
                                     b"\x1f\x8b\x08broken gzip", b"{}"])
def test_broken_data(content, transport, built, tmp_path):
    project, images, labels = built
    broken = tmp_path / "broken"
    broken.write_bytes(content)
    refused(pipeline.BIN / "pdc-run", project, "--transport", transport, "--data", f"input={broken}", "--data",
            f"labels={labels}", "--steps", 1, says=["broken"])


def test_wrong_data(built, tmp_path):
    project, images, labels = built
    run = lambda *data, says: refused(pipeline.BIN / "pdc-run", project, "--transport", "local", "--steps", 1,
                                      *[part for entry in data for part in ("--data", entry)], says=says)
    run(f"input={images}", says=["labels"])
    run(f"input={images}", f"labels={labels}", f"other={labels}", says=["other"])
    run(f"input={labels}", f"labels={labels}", says=["input"])
    run(f"input={images}", "labels=/nonexistent", says=["/nonexistent"])


@pytest.mark.parametrize("options,says", [
    (["--lr", "nan"], ["--lr", "'nan'", "finite number"]),
    (["--lr", "inf"], ["--lr", "'inf'"]),
    (["--lr", "-1"], ["--lr", "'-1'", "at least 0"]),
    (["--lr", "1e31"], ["--lr: found '1e31', expected a finite number of at least 0 and at most 1e30"]),
    (["--clip-norm", "nan"], ["--clip-norm", "'nan'"]),
    (["--clip-norm", "-0.5"], ["--clip-norm", "'-0.5'"]),
    (["--timeout", "nan"], ["--timeout", "'nan'"]),
    (["--timeout", "0"], ["--timeout", "'0'"]),
    (["--steps", "0"], ["--steps", "'0'", "at least 1"]),
    (["--steps", "-1"], ["--steps: found '-1', expected a whole number of at least 1\n"]),
    (["--steps", "1.5"], ["--steps", "'1.5'"]),
    (["--steps", "99999999999999999999"], ["--steps", "'99999999999999999999'", "at most 9223372036854775807"]),
    (["--epochs", "-3"], ["--epochs", "'-3'"]),
    (["--seed", "-1"], ["--seed", "'-1'", "at least 0"]),
    (["--seed", "18446744073709551616"], ["--seed", "'18446744073709551616'", "at most 18446744073709551615"]),
    (["--save", ""], ["--save: found '', expected a name"]), (["--resume", "", "--steps", "3"], ["--resume: found '', expected a name"]),
    (["--save-every", "0", "--save", "x"], ["--save-every", "'0'"]),
    (["--save-every", "5"], ["--save-every 5", "--save DIR"]),
    (["--delays", "5"], ["--delays 5", "--rendezvous"]),
    (["--metric", "f1"], ["--metric", "'f1'", "accuracy"]),
    (["--order", "random"], ["--order", "'random'", "shuffled"]),
    (["--progress", "bar"], ["--progress", "'bar'", "plain"]),
    (["--transport", "tcp"], ["--transport", "'tcp'", "local, mpi"]),
    (["--lr-schedule", "exponential"], ["--lr-schedule exponential", "constant|step|cosine|linear"]),
    (["--lr-schedule", "cosine,warmup=-1"], ["'warmup=-1'"]),
    (["--lr-schedule", "cosine,warmup="], ["'warmup='"]),
    (["--lr-schedule", "cosine,warmup=nan"], ["'warmup=nan'"]),
    (["--lr-schedule", "cosine,warmup=1.5"], ["'warmup=1.5'"]),
    (["--lr-schedule", "step,size=0"], ["'size=0'"]),
    (["--lr-schedule", "step,gamma=-1"], ["'gamma=-1'"]),
    (["--lr-schedule", "cosine,gamma=0.5"], ["'gamma=0.5'"]),
    (["--data", "images.npy"], ["--data", "'images.npy'", "INPUT=FILE"]),
    (["--data", "input=a", "--data", "input=b"], ["input 'input' is given twice, as a and b"]),
    (["--eval-data", "input=a", "--eval-data", "input=b"], ["--eval-data: input 'input' is given twice"]),
    (["--data", "input=a,std=0"], ["'std=0'", "above 0"]),
    (["--data", "input=a,mean=nan"], ["'mean=nan'"]),
    (["--data", "input=a,mean="], ["'mean='"]),
    (["--data", "input="], ["--data: found 'input=', expected the name of a file"]),
    (["--data", "input=a,type=uint16"], ["'type=uint16'", "u8, u16"]),
    (["--transport", "local", "--hosts", "a,b"], ["--hosts"]),
    (["--", "--mca", "x", "y"], ["-- --mca", "--transport mpi"]),
    (["--no-such-option"], ["--no-such-option"]),
    (["one", "two"], ["two"]),
])
def test_usage_of_pdc_run(options, says, built):
    """Told before anything is built or read, and by the stage programs in the same words."""
    refused(pipeline.BIN / "pdc-run", "/nonexistent", *options, status=2, says=says)
    if not {"--hosts", "--"} & set(options):
        project, _, _ = built
        refused(project / "build" / "all_stages", *options, status=2, says=says)


@pytest.mark.parametrize("transport", ["local", "mpi"])
def test_bad_values_name_file_and_sample(transport, built, tmp_path):
    project, images, labels = built
    def run(x, y, says, *options):
        refused(pipeline.BIN / "pdc-run", project, "--transport", transport, "--steps", 4, "--data", f"input={x}",
                "--data", f"labels={y}", *options, says=says)
    for value in (10, -1, 1 << 40):
        wrong = numpy.load(labels)
        wrong[5] = value
        numpy.save(tmp_path / "wrong.npy", wrong)
        says = [f"wrong.npy: sample 5 (counted from 0) of input 'labels' holds {value}, expected 0 to 9"]
        run(images, tmp_path / "wrong.npy", says + ["of epoch 0"])
        run(images, labels, says, "--eval-data", f"input={images}", "--eval-data", f"labels={tmp_path / 'wrong.npy'}")
    broken = numpy.load(images)
    broken[3, 700] = numpy.nan
    numpy.save(tmp_path / "broken.npy", broken)
    run(tmp_path / "broken.npy", labels, ["broken.npy: sample 3 (counted from 0) of input 'input' holds at element 700 nan"])


def test_too_few_samples(built, tmp_path):
    project, images, labels = built
    for count in (0, 3):
        numpy.save(tmp_path / "x.npy", numpy.load(images)[:count])
        numpy.save(tmp_path / "y.npy", numpy.load(labels)[:count])
        few = [f"input={tmp_path / 'x.npy'}", f"labels={tmp_path / 'y.npy'}"]
        run = [pipeline.BIN / "pdc-run", project, "--transport", "local", "--steps", 1]
        refused(*run, "--data", few[0], "--data", few[1], says=[f"--data: the files hold {count} samples", "microbatch of 4"])
        whole = ["--data", f"input={images}", "--data", f"labels={labels}", "--eval-data", few[0], "--eval-data", few[1]]
        if count == 0:
            refused(*run, *whole, says=["--eval-data: the files hold 0 samples"])
        else:
            assert pipeline.run(*run, *whole).returncode == 0  # a padded microbatch
    refused(*run, "--data", few[0], "--data", f"labels={labels}", says=["same number of samples", "3", "16"])


def test_folders_of_pdc_run(built, tmp_path):
    run = lambda folder, *says: refused(pipeline.BIN / "pdc-run", folder, says=says)
    run(tmp_path / "none", "none: is no folder")
    run(tmp_path, "plan.json: cannot be read: No such file")
    (tmp_path / "plan.json").write_text("{}")
    run(tmp_path, "plan.json: is no plan")
    (tmp_path / "plan.json").write_text((built[0] / "plan.json").read_text()[:-9])
    run(tmp_path, "plan.json: is damaged", "parse error at line", "run pdc again")
    (tmp_path / "plan.json").write_text((built[0] / "plan.json").read_text())
    run(tmp_path, "holds no CMakeLists.txt")


def without_tensor(tensors, name):
    del tensors[name]


def with_wrong_shape(tensors, name):
    tensors[name] = tensors[name].reshape(1, -1)


def with_wrong_type(tensors, name):
    tensors[name] = tensors[name].astype(numpy.float64)


WRONG_TENSORS = [(without_tensor, "has no tensor '{}', expected F32["), (with_wrong_shape, "tensor '{}' is F32[1x"),
                 (with_wrong_type, "tensor '{}' is F64[")]


def test_broken_weights(built, tmp_path):
    project, images, labels = built
    weights = project / "weights.safetensors"
    whole, tensors = weights.read_bytes(), safetensors.load(weights)
    name = sorted(tensors)[0]

    def run(*says):
        refused(pipeline.BIN / "pdc-run", project, "--transport", "local", "--data", f"input={images}", "--data",
                f"labels={labels}", "--steps", 1, says=["weights.safetensors", *says])
    try:
        for content in (b"", whole[:100], whole[:-5], b"\xff" * 64):
            weights.write_bytes(content)
            run()
        for change, says in WRONG_TENSORS:
            changed = dict(tensors)
            change(changed, name)
            safetensors.save(weights, changed)
            run(says.format(name), "run pdc again")
    finally:
        weights.write_bytes(whole)


PART, INDEX = "model-00001-of-00002.safetensors", "model.safetensors.index.json"


def cut(name, end):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:end])


def drawn(name):
    return lambda folder: (folder / name).write_bytes(random.Random(1).randbytes(4096))


def state(**fields):
    def damage(folder):
        (folder / "state.json").write_text(json.dumps(json.loads((folder / "state.json").read_text()) | fields))
    return damage


def index(file):
    def damage(folder):
        content = json.loads((folder / INDEX).read_text())
        content["weight_map"] = dict.fromkeys(content["weight_map"], file)
        (folder / INDEX).write_text(json.dumps(content))
    return damage


def tensor(change):
    def damage(folder):
        tensors = safetensors.load(folder / PART)
        change(tensors, sorted(tensors)[0])
        safetensors.save(folder / PART, tensors)
    return damage


DAMAGES = {
    "cut-tensors": (cut(PART, -5), [f"{PART}: tensor '", "cut off"]),
    "cut-header": (cut(PART, 100), [f"{PART}: not a safetensors file"]),
    "drawn-tensors": (drawn(PART), [f"{PART}: not a safetensors file"]),
    "cut-state": (cut("state.json", -20), ["state.json: is cut off or damaged"]),
    "cut-index": (cut(INDEX, -20), [f"{INDEX}: is cut off or damaged"]),
    "step-x": (state(step="x"), ["""state.json: 'step' is "x", expected a whole number"""]),
    "step-negative": (state(step=-1), ["'step' is -1"]),
    "step-1e300": (state(step=1e300), ["'step' is 1e+300"]),
    "huge-epoch": (state(epoch=1 << 62), ["'epoch' is 4611686018427387904", "from 0 to 1099511627776"]),
    "epochs-overflow": (state(epoch=1 << 40), ["stands in epoch 1099511627776"]),
    "huge-cursor": (state(cursor=1 << 39), ["stands at microbatch 549755813888"]),
    "index-outside": (index("../" + PART), [f"{INDEX}: the file of tensor '", f'"../{PART}"', "in the same folder"]),
    "missing-tensor": (tensor(without_tensor), [f"{PART}: has no tensor '", "expected F32["]),
    "wrong-shape": (tensor(with_wrong_shape), [f"{PART}: tensor '", "is F32[1x"]),
    "wrong-type": (tensor(with_wrong_type), [f"{PART}: tensor '", "is F64["]),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_checkpoint(name, built, tmp_path):
    project, images, labels = built
    damage, says = DAMAGES[name]
    checkpoint = tmp_path / "step-000001"
    shutil.copytree(project.parent / "run" / "checkpoints" / "step-000001", checkpoint)
    damage(checkpoint)
    text = refused(project / "build" / "all_stages", "--transport", "local", "--data", f"input={images}", "--data",
                   f"labels={labels}", "--steps", 2, "--resume", checkpoint, says=says)
    assert text.count("error: ") == 1, text


def test_a_build_that_failed_is_begun_again(models, tmp_path):
    project = pipeline.compile_model(models("mlp", "--hidden", 8), tmp_path / "project", "--minibatch", 8)
    environment = {**os.environ, "CXX": "/nonexistent/compiler"}
    first = subprocess.run([pipeline.BIN / "pdc-run", project, "--build-only"], env=environment, capture_output=True, check=False)
    assert first.returncode == 1
    assert not (project / "build").exists()
    pipeline.run(pipeline.BIN / "pdc-run", project, "--build-only")
