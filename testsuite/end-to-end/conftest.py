import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "models"))

import emulation  # noqa: E402
import pipeline  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--device", choices=["cpu", "cuda"], default="cpu",
                     help="cuda: networks that pipeline compiles and trains run as sources for GPUs, emulated")


def pytest_configure(config):
    if config.getoption("device") == "cuda":
        pipeline.compile_model, pipeline.train = emulation.compile_model, emulation.train
    config.addinivalue_line("markers", "processor: what it expects is the processor's, with --device cuda too")
    config.addinivalue_line("markers", "long: long.txt lists it, and tools/check --fast leaves it out; others like it stay")
    config.addinivalue_line("markers", "schedules: a cell of the table that tools/check --schedules trains, and a plain check does not")
    config.addinivalue_line("markers", "models: a network that tools/check --models trains, or trains longer, or --cuda compiles; a plain check does not")


def pytest_collection_modifyitems(config, items):
    """Tests of a file that train the same network stay in one process: some compare with one another."""
    listed = (pathlib.Path(__file__).parent / "long.txt").read_text().split()
    known = {f"{item.path.name}::{item.name}" for item in items}
    files = {item.path.name for item in items} if not any("::" in argument for argument in config.args) else set()
    stale = [name for name in listed if name.split("::")[0] in files and name not in known]
    if stale:
        raise pytest.UsageError(f"long.txt lists tests that do not exist: {' '.join(stale)}")
    if config.getoption("device") == "cuda":
        items[:] = [item for item in items if not item.get_closest_marker("processor")]
    for item in items:
        if f"{item.path.name}::{item.name}" in listed:
            item.add_marker(pytest.mark.long)
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        item.add_marker(pytest.mark.xdist_group(f"{item.path.stem} {parameters.get('network', '')}"))


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Exports a network of tools/models or of this folder once per session: models("lenet5")."""
    folder, made = tmp_path_factory.mktemp("models"), {}

    def make(script, *options):
        key = (script, *map(str, options))
        if key not in made:
            made[key] = pipeline.export(script, folder / f"{script}-{len(made)}.onnx", *options)
        return made[key]

    return make


def pytest_terminal_summary(terminalreporter):
    """What a test recorded as its summary."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, text in report.user_properties:
            if name == "summary" and report.when == "call":
                terminalreporter.write_line(text)
