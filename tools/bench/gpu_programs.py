"""Programs that tools/gpu-check and its benchmark start: none outlives it, and what they print and warn of is kept."""
import math
import os
import pathlib
import signal
import statistics
import subprocess
import threading
import time

running = set()  # processes that have not ended
starting = threading.Lock()
logs = None  # the folder in which all that programs print is kept, a file for each
warnings = {}  # what programs have warned of, by their names
telling = threading.Lock()


class Skipped(Exception):
    """What cannot be done on this machine, and why."""


class Failure(RuntimeError):
    """Of a program; `printed`: all that it said."""

    def __init__(self, message, printed):
        super().__init__(message)
        self.printed = printed


class OutOfTime(Failure):
    """Of one that was ended."""


def members(session):
    """Its processes that run."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = pathlib.Path("/proc", process, "stat").read_text(encoding="utf-8", errors="replace")
            state, _, _, its_session = stat.rsplit(")", 1)[1].split()[:4]  # behind a name that may hold anything
        except (OSError, IndexError):  # it has ended meanwhile
            continue
        if int(its_session) == session and state != "Z":
            found.append(int(process))
    return found


def end(process):
    """With all that it has started: its session, since builders give each of their jobs a group of its own; again, since one may just
    have started another."""
    ends = time.monotonic() + 5
    while (found := members(process.pid)) and time.monotonic() < ends:
        for member in found:
            try:
                os.kill(member, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


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
        output, errors = what_was_said(process)
        why = f"was ended after {limit:.0f} s"
    except BaseException:
        end(process)
        raise
    finally:
        running.discard(process)
    keep(command, output + errors)
    if why or process.returncode != 0:
        kind = OutOfTime if why else Failure
        raise kind(f"{' '.join(map(str, command))} {why or f'exited with {process.returncode}'}\n{causes(output + errors)}", output + errors)
    return output


def what_was_said(process, limit=10):
    """By one that was ended: a process in a session of its own may hold its output open for ever."""
    try:
        return process.communicate(timeout=limit)
    except subprocess.TimeoutExpired as error:
        return tuple((part or b"").decode(errors="replace") for part in (error.stdout, error.stderr))


def ask_driver(what):
    try:
        return run(["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"], 30).strip().splitlines()
    except (OSError, RuntimeError) as error:
        return [f"unknown: {error}"]


class Readings:
    """Of the GPU while something runs: `memory`, the most that was used beyond what was before, in MB, and `clock`, the median in MHz;
    None: unknown. One process reads them all the time: starting one for each reading would slow down what is measured."""

    def __enter__(self):
        self.before = self.memory = None
        self.clocks = []
        self.has_begun = threading.Event()
        try:
            self.reader = start(["nvidia-smi", "-i", "0", "--query-gpu=memory.used,clocks.sm", "--format=csv,noheader,nounits", "-lms", "250"],
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
            memory, _, clock = (part.strip() for part in line.partition(","))
            if memory.isdigit():
                used = int(memory)
                self.before = used if self.before is None else self.before
                self.memory = max(self.memory or 0, used - self.before)
            if clock.isdigit():
                self.clocks.append(int(clock))
            self.has_begun.set()
        self.has_begun.set()

    @property
    def clock(self):
        return statistics.median(self.clocks) if self.clocks else None

    def __exit__(self, *_):
        if self.reader:
            end(self.reader)
            self.reader.wait()
            self.thread.join()
            self.reader.stdout.close()
            running.discard(self.reader)
