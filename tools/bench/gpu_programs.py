"""Programs that tools/gpu-check and its benchmark start: none outlives it, and what they print and warn of is kept."""
import math
import os
import pathlib
import signal
import subprocess
import threading

running = set()  # processes that have not ended
starting = threading.Lock()
logs = None  # the folder in which all that programs print is kept, a file for each
warnings = {}  # what programs have warned of, by their names
telling = threading.Lock()


def end(process):
    """With all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def start(command, **options):
    with starting:
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True, start_new_session=True, **options)
        running.add(process)
    return process


def end_all():
    """Nothing starts any more; not to be called by a thread that may be starting something."""
    starting.acquire()  # for ever
    for process in list(running):
        end(process)


def causes(text, count=5, lines=8):
    """The first errors of what a build or a program printed, each once and with the lines behind it; its end where none is marked."""
    found, printed = [], text.splitlines()
    at = 0
    while at < len(printed) and len(found) < count:
        if printed[at].startswith(("FAILED", "CMake Error")) or "error:" in printed[at]:
            if (error := "\n".join(line[:400] for line in printed[at:at + lines])) not in found:
                found.append(error)
            at += lines
        else:
            at += 1
    return "\n...\n".join(found) or text[-2000:]


def keep(command, printed):
    name = pathlib.Path(command[0]).name
    with telling:
        for line in printed.splitlines():
            if line.startswith("warning:") and line not in warnings.setdefault(name, []):
                warnings[name].append(line)
        if logs:
            logs.mkdir(exist_ok=True)
            with open(logs / f"{name}.log", "a", encoding="utf-8") as file:
                file.write(f"$ {' '.join(map(str, command))}\n{printed}\n")


def warned():
    with telling:
        return {name: list(lines) for name, lines in warnings.items() if lines}


def run(command, limit=math.inf, **options):
    """What it prints, without errors and warnings, which are kept; ended after `limit` seconds."""
    process = start(command, stderr=subprocess.PIPE, **options)
    why = None
    try:
        output, errors = process.communicate(timeout=limit if limit < math.inf else None)
    except subprocess.TimeoutExpired:
        end(process)
        output, errors = process.communicate()
        why = f"was ended after {limit:.0f} s"
    except BaseException:
        end(process)
        raise
    finally:
        running.discard(process)
    keep(command, output + errors)
    if why or process.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} {why or f'exited with {process.returncode}'}\n{causes(output + errors)}")
    return output


class Memory:
    """The GPU's memory while something runs: the most that was used beyond what was before, in MB; None: unknown. One process
    reads it all the time: starting one for each reading would slow down what is measured."""

    def __enter__(self):
        self.before = self.most = None
        self.has_begun = threading.Event()
        try:
            self.reader = start(["nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "250"],
                                stderr=subprocess.DEVNULL)
        except OSError:
            self.reader = None
            return self
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        if not self.has_begun.wait(5):  # what is used before is not known then, nor is it worth waiting for
            end(self.reader)
        return self

    def watch(self):
        for line in self.reader.stdout:
            if line.strip().isdigit():
                used = int(line)
                self.before = used if self.before is None else self.before
                self.most = max(self.most or 0, used - self.before)
            self.has_begun.set()
        self.has_begun.set()

    def __exit__(self, *_):
        if self.reader:
            end(self.reader)
            self.reader.wait()
            self.thread.join()
            self.reader.stdout.close()
            running.discard(self.reader)
