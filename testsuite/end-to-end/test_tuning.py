"""Programs for GPUs that measure which of the libraries' kernels are the fastest (--tune), on the emulation: cuDNN has two engines for
all that it computes, cuBLASLt as many kernels as it is told, all of the same bits."""

import json
import os
import re

import pytest

import emulation
import pipeline
import test_nccl

LINE = r"rank (\d) measured (\d+) kernels in [\d.]+ s: for (\d+) of (\d+) problems it takes another than the library's first; kept in (\S+)\n"


def data_of(folder):
    images, labels = pipeline.draw_images(folder, 32, (1, 28, 28), 10)
    return ["--data", f"input={images}", "--data", f"labels={labels}"]


def train(project, work, *options, check=True, **environment):
    """What a run of three steps has told on stderr, and its losses."""
    work.mkdir()
    done = pipeline.run(project / "on_host", "--steps", 3, "--seed", 1, "--log", work / "log.jsonl", *options, cwd=project, check=check,
                        env=os.environ | environment)
    return done.stderr, pipeline.step_losses(pipeline.read_log(work / "log.jsonl")) if done.returncode == 0 else None


@pytest.fixture(name="project", scope="module")
def two_stages(models, tmp_path_factory):
    project = emulation.emit(models("lenet5"), tmp_path_factory.mktemp("tuning") / "cuda", "--stages", "1-1", "--minibatch", 8,
                             "--microbatches", 2, "--optimizer", "momentum,lr=0.05", workers=2)
    emulation.build_for_host(project)
    return project


@emulation.on_host
def test_takes_the_same_kernels_again(project, tmp_path):
    """Both ranks have their own file; another run and a rank with no file of its own measure nothing."""
    data, folder = data_of(tmp_path), tmp_path / "kernels"
    evaluated = ["--tune", folder, *data, *(word.replace("--data", "--eval-data") for word in data)]
    told, plain = train(project, tmp_path / "plain", *data)
    assert "measured" not in told
    slow = {"HOST_CUDNN_SLOW": "best", "HOST_CUBLASLT_KERNELS": "2"}
    told, first = train(project, tmp_path / "first", *evaluated, **slow)
    lines = {int(rank): [int(kernels), int(others), int(problems), file] for rank, kernels, others, problems, file in re.findall(LINE, told)}
    assert sorted(lines) == [0, 1] and told.count("measured") == 2, told
    convolutions = 0
    for rank, (kernels, others, problems, file) in lines.items():
        kept = folder / f"rank-{rank}.json"
        choices = json.loads(kept.read_text())["choices"]
        assert file == str(kept) and kernels == 2 * problems and len(choices) >= problems > 0
        assert all(problem.startswith("this host, cu") for problem in choices)
        engines = [way for problem, way in choices.items() if problem.startswith("this host, cuDNN ")]
        assert all(way == 1 for way in engines) and others >= len(engines)
        convolutions += len(engines)
    assert convolutions == 7  # two, the gradients of their weights, made and added, and of one input
    assert first == plain
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(before) == ["rank-0.json", "rank-1.json"]
    # What is the first would be slow to those who do not know.
    told, again = train(project, tmp_path / "again", *evaluated, "--no-graphs", HOST_CUDNN_SLOW="others", HOST_CUBLASLT_KERNELS="2")
    assert "measured" not in told and again == first
    (folder / "rank-0.json").rename(folder / "rank-7.json")
    told, moved = train(project, tmp_path / "moved", *evaluated, **slow)
    assert "measured" not in told and moved == first
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "rank-7.json" if name == "rank-0.json" else name: text for name, text in before.items()}


@emulation.on_host
def test_convolves_with_bias_and_relu_in_one_kernel(models, tmp_path):
    """Where that is faster: rounded once, so other bits than two kernels have, and the same ones however the model is split."""
    data, losses = data_of(tmp_path), {}
    for stages in ("1", "1-1"):
        made = emulation.emit(models("lenet5"), tmp_path / f"cuda-{stages}", "--stages", stages, "--minibatch", 8, "--microbatches", 2,
                              "--schedule", "1f1b", "--precision", "bf16", "--optimizer", "momentum,lr=0.05", workers=len(stages.split("-")))
        emulation.build_for_host(made)
        _, losses[f"apart {stages}"] = train(made, tmp_path / f"apart-{stages}", *data)
        folder = tmp_path / f"kernels-{stages}"
        _, losses[stages] = train(made, tmp_path / f"together-{stages}", *data, "--tune", folder, HOST_CUDNN_SLOW="plain")
        choices = {}
        for file in folder.iterdir():
            choices |= json.loads(file.read_text())["choices"]
        ways = [way for problem, way in choices.items() if "convolution with its bias and relu" in problem and "in one kernel or in two" in problem]
        assert ways == [1, 1], choices
        told, again = train(made, tmp_path / f"again-{stages}", *data, "--tune", folder, HOST_CUDNN_SLOW="fused")
        assert "measured" not in told and again == losses[stages]
    assert losses["1"] == losses["1-1"] and losses["apart 1"] == losses["apart 1-1"]
    assert losses["1"] != losses["apart 1"] and losses["1"] == pytest.approx(losses["apart 1"], rel=2**-7)


@emulation.on_host
@pytest.mark.parametrize("stages,schedule,arrangement", [("1-1-1", "1f1b", "pairs"), ("2-1", "pipedream", "edges")])
def test_measures_between_messages(stages, schedule, arrangement, models, tmp_path, monkeypatch):
    """Who measures waits for its GPU, where others wait for its messages."""
    monkeypatch.setenv("HOST_CUBLASLT_KERNELS", "3")
    project = test_nccl.emit_for_nccl(models("mlp", "--hidden", 64, 32, 16), tmp_path / "cuda", "--schedule", schedule, "--stages", stages,
                                      "--minibatch", 32, *([] if schedule == "pipedream" else ["--microbatches", 4]), workers=3,
                                      arrangement=arrangement)
    images, labels = pipeline.draw_images(tmp_path, 128, (784,), 10)
    data = [f"input={images}", f"labels={labels}"]
    plain, tuned = (pipeline.train(project, tmp_path / name, *options, data=data, steps=4, transport="nccl")
                    for name, options in (("plain", []), ("tuned", ["--tune", tmp_path / "kernels"])))
    assert tuned.losses == plain.losses
    assert sorted(int(rank) for rank, *_ in re.findall(LINE, tuned.output)) == [0, 1, 2], tuned.output
    again = pipeline.train(project, tmp_path / "again", "--tune", tmp_path / "kernels", data=data, steps=4, transport="nccl")
    assert "measured" not in again.output and again.losses == plain.losses


@emulation.on_host
def test_says_what_is_wrong_with_the_folder(project, tmp_path):
    data, folder = data_of(tmp_path), tmp_path / "kernels"
    folder.mkdir()
    (folder / "rank-1.json").write_text("{\"format\": \"pdc tuning 1\", \"choi")
    told, _ = train(project, tmp_path / "damaged", *data, "--tune", folder, check=False)
    assert f"error: {folder}/rank-1.json: is damaged or not of this program, expected a JSON object" in told, told
    told, _ = train(project, tmp_path / "no-folder", *data, "--tune", folder / "rank-1.json", check=False)
    assert told == f"error: --tune {folder}/rank-1.json: cannot be written; give a folder that can\n"


@emulation.on_host
def test_is_refused_where_bits_are_exact(models, tmp_path):
    project = emulation.emit(models("lenet5"), tmp_path / "exact", "--exact", "--minibatch", 8, "--microbatches", 2)
    emulation.build_for_host(project)
    told, _ = train(project, tmp_path / "work", *data_of(tmp_path), "--tune", tmp_path / "kernels", check=False)
    assert told == (f"error: --tune {tmp_path}/kernels: these programs were compiled with --exact, whose bits do not depend on how the "
                    "model is split, and a kernel that is faster has other bits; leave it out, or run pdc again without --exact\n")
    assert not (tmp_path / "kernels").exists()


def test_is_refused_on_the_processor(models, tmp_path):
    project = pipeline.compile_model(models("lenet5"), tmp_path / "cpu", "--minibatch", 8, "--microbatches", 2)
    done = pipeline.run(pipeline.BIN / "pdc-run", project, *data_of(tmp_path), "--steps", 1, "--tune", tmp_path / "kernels", check=False)
    assert done.returncode == 1
    assert (f"error: --tune {tmp_path}/kernels: measures kernels of GPUs, and these programs are for the CPU; leave it out, or pass "
            "--device cuda to pdc\n") in done.stderr
    assert not (tmp_path / "kernels").exists()
