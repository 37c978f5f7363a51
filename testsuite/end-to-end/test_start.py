"""Ranks that never come end the start of the others, which say who is missing."""

import os
import re
import subprocess

import pytest

import pipeline

TIMEOUT = 4

GONE, HANGS = "these have ended, have not begun or are on other hosts: ", "of this host's ranks these are stopped or hang: "

ENDS = "exit 0"
IS_STOPPED = "kill -STOP $$"
# Once it has begun and waits for the others in MPI; other tests may be starting ranks, too.
STOPS = "(until grep -q \"@pdc-start-$PMIX_NAMESPACE-.*$MISSING\\$\" /proc/net/unix; do :; done; kill -STOP $$) &"


@pytest.fixture(scope="module")
def project(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    made = pipeline.compile_model(models("mlp"), folder / "project", "--minibatch", 8, "--microbatches", 2, "--stages", "1-1", workers=2)
    pipeline.run(pipeline.BIN / "pdc-run", made, "--build-only")
    images, labels = pipeline.draw_images(folder, 64, (784,), 10)
    return made, ["--data", f"input={images}", "--data", f"labels={labels}"]


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("how,says", [(ENDS, GONE), (IS_STOPPED, GONE), (STOPS, HANGS)], ids=["ends", "is_stopped", "stops"])
def test_says_who_is_missing(how, says, missing, project, tmp_path):
    made, data = project
    rank = tmp_path / "rank"
    rank.write_text(f'#!/bin/bash\nif [ "$OMPI_COMM_WORLD_RANK" = $MISSING ]; then {how}\nfi\nexec {made}/build/all_stages "$@"\n')
    rank.chmod(0o755)
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", rank, "--transport", "mpi", *data, "--steps", "1", "--timeout", str(TIMEOUT)]
    run = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                           env=os.environ | {"MISSING": str(missing)})
    try:
        said = run.communicate(timeout=40)[0]
    finally:
        run.kill()
    assert run.returncode == 1, said
    # Once, by the rank that is there.
    assert re.findall("^error: .*", said, re.M) == [
        f"error: start-up: MPI has not brought all ranks together within {TIMEOUT} s (--timeout); {says}{missing}; "
        "see why they are missing and start all ranks again, or raise --timeout"], said
