"""An installed pdc compiles, builds and trains without the tree it came from."""

import numpy

import pipeline


def test_installed_commands_train(tmp_path):
    build = pipeline.BIN.parent
    prefix = tmp_path / "prefix"
    pipeline.run("cmake", "--install", build, "--prefix", prefix)
    project = tmp_path / "tiny.pdc"

    def write(folder):
        pipeline.run(folder / "pdc", pipeline.MODELS / "fashion.onnx", "--gpus", 2, "--device", "cpu", "--minibatch", 8,
                     "--microbatches", 2, "-o", project)

    def linked():
        cache = (project / "build" / "CMakeCache.txt").read_text().splitlines()
        return next(line.split("=")[1] for line in cache if line.startswith("PdcRuntime_DIR:"))

    write(prefix / "bin")
    assert str(prefix) in (project / "CMakeLists.txt").read_text()
    images, labels = pipeline.draw_images(tmp_path / "data", 16, (1, 28, 28), 10)
    log = tmp_path / "log.jsonl"
    pipeline.run(prefix / "bin" / "pdc-run", project, "--transport", "local", "--steps", 2, "--log", log,
                 "--data", f"input={images}", "--data", f"labels={labels}")
    losses = pipeline.step_losses(pipeline.read_log(log))
    assert len(losses) == 2 and numpy.isfinite(losses).all()
    assert linked().startswith(str(prefix))

    # Another pdc writes the sources anew: they link its runtime, unless one is given.
    write(pipeline.BIN)
    configure = ["cmake", "-S", project, "-B", project / "build"]
    pipeline.run(*configure)
    assert linked() == str(build / "lib" / "cmake" / "PdcRuntime")
    pipeline.run(*configure, f"-DPdcRuntime_DIR={prefix / 'lib' / 'cmake' / 'PdcRuntime'}")
    pipeline.run(*configure)
    assert linked().startswith(str(prefix))
