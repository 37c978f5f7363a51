import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "models"))

import pipeline  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "long: tools/check --fast leaves it out; others like it stay")


def pytest_collection_modifyitems(items):
    """Tests of a file that train the same network stay in one process: some compare with one another."""
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        item.add_marker(pytest.mark.xdist_group(f"{item.path.stem} {parameters.get('network', '')}"))


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Exports a network of tools/models once per session: models("lenet5")."""
    folder, made = tmp_path_factory.mktemp("models"), {}

    def make(script, *options):
        key = (script, *map(str, options))
        if key not in made:
            made[key] = pipeline.export(script, folder / f"{script}-{len(made)}.onnx", *options)
        return made[key]

    return make
