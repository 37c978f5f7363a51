#!/usr/bin/python3
"""Compares pdc-plan with PipeDream's released optimizer, written down again from its description.

    released_optimizer.py PDC-PLAN [PROFILE...] [--drawn N] [--seed S]

`released` is that optimizer: a dynamic program over the antichains of the graph, every pair of them, with
its way of counting the bytes of a cut. `evaluate` judges any plan by the closed forms with the bytes that
truly cross. On chains both must agree with pdc-plan; on branched graphs pdc-plan must not be worse than the
released plan, judged by `evaluate`. Profiles are drawn (seeded); others can be named.
"""
import argparse
import functools
import itertools
import json
import math
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

NEVER = math.inf


class Profile:
    """graph.txt without Input nodes and outputs that nobody reads."""

    def __init__(self, text):
        self.cost, self.kind, self.readers, self.read = {}, {}, {}, {}
        for line in text.splitlines():
            if line.startswith("\t"):
                source, target = line.strip().split(" -- ")
                self.readers[source].append(target)
                self.read[target].append(source)
            elif line.strip():
                name, kind, costs = line.strip().split(" -- ")[:3]
                values = [field.split("=")[1] for field in costs.split(", ")]
                forward, backward, activation, weights = (
                    sum(map(float, value.strip("[]").split("; "))) for value in values)
                self.cost[name] = ((forward + backward) / 1000, activation, weights)
                self.kind[name], self.readers[name], self.read[name] = kind, [], []
        for starts, side in (("Input", self.read), ("__getitem__", self.readers)):
            for name in [name for name in self.cost if self.kind[name].startswith(starts) and not side[name]]:
                self.remove(name)

    def remove(self, name):
        for target in self.readers[name]:
            self.read[target].remove(name)
        for source in self.read[name]:
            self.readers[source].remove(name)
        for table in (self.cost, self.kind, self.readers, self.read):
            del table[name]

    @functools.cache
    def before(self, name):
        result = frozenset()
        for source in self.read[name]:
            result |= self.before(source) | {source}
        return result

    def closure(self, names):
        return frozenset(names).union(*(self.before(name) for name in names))

    def sums(self, nodes):
        return tuple(math.fsum(self.cost[node][which] for node in nodes) for which in range(3))

    def crossing(self, nodes):
        """Bytes that truly cross behind these nodes."""
        return math.fsum(self.cost[node][1] for node in nodes
                         if any(reader not in nodes for reader in self.readers[node]))


def antichains(profile):
    """The states: (last nodes, those with readers on other branches), closed sets, in topological order."""
    def widened(last):
        extra = {source for name in last for source in profile.before(name)
                 if any(reader not in profile.before(name) and reader != name for reader in profile.readers[source])}
        return extra | set(last)

    start = frozenset([next(name for name in profile.cost if not profile.read[name])])
    found, queue = {start}, [start]
    for last in queue:
        wide = widened(last)
        closed = profile.closure(last)
        for name in wide:
            for reader in profile.readers[name]:
                if reader in closed:
                    continue
                grown = (wide - {name}) | {reader}
                covered = frozenset().union(*(profile.before(other) for other in grown))
                following = frozenset(grown - covered)
                if following not in found:
                    found.add(following)
                    queue.append(following)
    states = sorted(((profile.closure(last), widened(last)) for last in found), key=lambda state: len(state[0]))
    return [state[0] for state in states], [sum(profile.cost[name][1] for name in wide) for _, wide in states]


def released(profile, workers, bandwidths, straight, memory=None):
    """(seconds of the pipeline, of data parallelism, hierarchy of node sets) as the released code has them."""
    states, bytes_out = antichains(profile)
    count = len(states)
    totals = [profile.sums(state) for state in states]
    inside = [[k for k in range(j) if states[k] < states[j]] for j in range(count)]

    def difference(i, j, which):
        return totals[j][which] - (totals[i - 1][which] if i else 0)

    work = {(i, j): difference(i, j, 0) for i in range(count) for j in range(i, count)}
    below, tables = 1, []
    for level, (number, bandwidth) in enumerate(zip(workers, bandwidths)):
        highest = level == len(workers) - 1
        best, choice = {}, {}
        for i in range(1 if highest else count):
            for j in range(i, count):
                for m in range(1, number + 1):
                    kept = math.ceil((number - m) / m) * (difference(i, j, 1) + difference(i, j, 2))
                    if (straight and m > 1) or (memory and kept > memory):
                        continue
                    sync = 4 * (m - 1) * difference(i, j, 2) / (bandwidth * m) / below
                    best[i, j, m], choice[i, j, m] = (work[i, j] + sync) / m, (None, m)
                for m in range(2, number + 1):
                    for k in inside[j]:
                        if k < i or (i and k in inside[i - 1]):
                            continue
                        for r in range(1, 2 if straight else m):
                            weights = difference(k + 1, j, 2)
                            kept = math.ceil((number - m) / r) * (difference(k + 1, j, 1) + weights)
                            if (i, k, m - r) not in best or (memory and kept > memory):
                                continue
                            stage = (work[k + 1, j] + 4 * (r - 1) * weights / (bandwidth * r)) / r
                            seconds = max(best[i, k, m - r], stage, 2 * bytes_out[k] / (bandwidth * r))
                            if j < count - 1:
                                seconds = max(seconds, 2 * bytes_out[j] / (bandwidth * r))
                            if seconds < best.get((i, j, m), NEVER):
                                best[i, j, m], choice[i, j, m] = seconds, (k, r)
        work = {(i, j): best.get((i, j, number), NEVER) for i in range(count) for j in range(i, count)}
        below = number
        tables.append(choice)

    def hierarchy(level, i, j):
        parts, m, end = [], workers[level], j
        while True:
            k, replicas = tables[level][i, end, m]
            start = i if k is None else k + 1
            content = ({"stages": hierarchy(level - 1, start, end)} if level else
                       {"nodes": states[end] - (states[start - 1] if start else frozenset())})
            parts.insert(0, {"replicas": replicas, **content})
            if k is None:
                return parts
            m, end = m - replicas, k

    total, _, weights = profile.sums(profile.cost)
    data, below = total, 1
    for number, bandwidth in zip(workers, bandwidths):
        data = (data + 4 * (number - 1) * weights / (bandwidth * number) / below) / number
        below = number
    seconds = work.get((0, count - 1), NEVER)
    return seconds, data, hierarchy(len(workers) - 1, 0, count - 1) if seconds < NEVER else None


def nodes_of(part):
    return frozenset(part["nodes"]) if "nodes" in part else frozenset().union(*map(nodes_of, part["stages"]))


def evaluate(profile, plan, workers, bandwidths, model="pipedream-code"):
    """Seconds of a hierarchy under a closed form; checks that it covers the graph in convex stages."""
    def level_seconds(parts, level, done):
        number, bandwidth, worst = workers[level], bandwidths[level], 0
        assert sum(part["replicas"] for part in parts) == number, "all workers of a level are used"
        for position, part in enumerate(parts):
            nodes = nodes_of(part)
            assert nodes and not nodes & done, "each node stands in one stage"
            behind = done | nodes
            assert all(profile.before(node) <= behind for node in nodes), "no stage reads from a later one"
            work, _, weights = profile.sums(nodes)
            if level:
                work = level_seconds(part["stages"], level - 1, done)
            m = part["replicas"]
            if model == "pipedream-code":
                sync = 4 * (m - 1) * weights / (bandwidth * m)
                if position == 0:
                    sync /= workers[level - 1] if level else 1
                stage = (work + sync) / m
                if position:
                    stage = max(stage, 2 * max(profile.crossing(done), profile.crossing(behind)) / (bandwidth * m))
            else:
                sync = 2 * (m - 1) * weights / bandwidth / (m if model == "ring-max" else 1)
                stage = max(work, sync) / m
                if position:
                    stage = max(stage, 2 * profile.crossing(done) / bandwidth)
            worst, done = max(worst, stage), behind
        return worst

    seconds = level_seconds(plan, len(workers) - 1, frozenset())
    assert frozenset().union(*map(nodes_of, plan)) == frozenset(profile.cost), "every node has a stage"
    return seconds


def draw(random_, count, branched):
    """A profile in its text form: a chain, or a graph with skips and branches."""
    lines, edges = ["node0 -- Input -- forward_compute_time=9.000, backward_compute_time=0.000, "
                    "activation_size=7.0, parameter_size=0.000"], ["\tnode0 -- node1"]
    for i in range(1, count + 1):
        zero = random_.random() < 0.1
        lines.append(f"node{i} -- Op({i}) -- forward_compute_time={0 if zero else random_.uniform(0, 50):.3f}, "
                     f"backward_compute_time={0 if zero else random_.uniform(0, 90):.3f}, "
                     f"activation_size={random_.choice([4, 1e5, 1e7, 1e8]) * random_.randint(1, 9):.1f}, "
                     f"parameter_size={random_.choice([0, 0, 1e5, 1e7, 1e8]) * random_.randint(1, 9):.3f}")
        if i > 1:
            sources = {i - 1}
            if branched:
                sources = {random_.randint(max(1, i - 4), i - 1) for _ in range(random_.choice([1, 1, 2, 3]))}
            edges += [f"\tnode{source} -- node{i}" for source in sorted(sources)]
    return "\n".join(lines + edges) + "\n"


def plan(tool, path, workers, bandwidths, straight, model="pipedream-code", memory=None):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "plan.json"
        command = [tool, path, "--workers", ",".join(map(str, workers)), "--bandwidth",
                   ",".join(map(repr, bandwidths)), "--cost-model", model, "--json", out]
        command += ["--straight"] if straight else []
        command += ["--memory", str(int(memory))] if memory else []
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            assert done.returncode == 1 and ("no plan fits" in done.stderr or "cannot fill" in done.stderr), done.stderr
            return None
        return json.loads(out.read_text())


def near(a, b):
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b))


def compare(tool, path, profile, workers, bandwidths, straight, memory=None):
    """'same', 'better' or 'none fits'."""
    where = f"{path} {workers} {bandwidths} straight={straight} memory={memory}"
    found = plan(tool, path, workers, bandwidths, straight, memory=memory)
    seconds, data, reference = released(profile, workers, bandwidths, straight, memory)
    theirs = NEVER
    try:
        theirs = evaluate(profile, reference, workers, bandwidths) if reference else NEVER
    except AssertionError:
        # Between states that are not nested its differences are of no set of nodes.
        reference = None
    if found is None:
        assert reference is None, f"{where}: refused, the released optimizer needs {seconds}"
        return "none fits"
    own = evaluate(profile, found["hierarchy"], workers, bandwidths)
    assert near(own, found["seconds_per_minibatch"]), (where, own, found["seconds_per_minibatch"])
    assert near(data, found["data_parallel_seconds_per_minibatch"]), (where, data)
    if reference is None:
        return "the released optimizer has no plan, or one that puts a node into two stages"
    # In a chain every node but the last is read by the next one, whatever else reads it.
    order = sorted(profile.cost, key=lambda node: len(profile.before(node)))
    if all(a in profile.before(b) for a, b in itertools.pairwise(order)):
        assert near(own, seconds), (where, own, seconds)
    assert own <= theirs * (1 + 1e-9), (where, own, theirs)
    return "better" if own < theirs * (1 - 1e-9) else "same"


TOPOLOGIES = [([4], [1e9]), ([8], [8e9]), ([3], [2e8]), ([4, 2], [8e9, 1.25e9]), ([2, 3], [4e9, 1e9]),
              ([2, 2, 2], [1.6e10, 4e9, 1e9]), ([1, 4], [1e9, 5e8]), ([2, 1, 2], [8e9, 4e9, 1e9]),
              ([16], [1.25e9]), ([5], [3e9]), ([2, 8], [8e9, 1.25e9]), ([8, 2], [4294967296.0, 2147483648.0]),
              ([4, 3], [1.2e10, 7e8]), ([3, 5], [5e8, 2e9]), ([2, 2, 4], [1.6e10, 4e9, 1e9]),
              ([2, 4, 2], [1e9, 3e9, 2e8]), ([3, 2, 2], [9e9, 1e9, 6e9])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("profiles", nargs="*")
    parser.add_argument("--drawn", type=int, default=40, help="profiles that are drawn (%(default)s)")
    parser.add_argument("--seed", type=int, default=4)
    options = parser.parse_args()
    tool, files = shutil.which(options.tool), options.profiles
    random_ = random.Random(options.seed)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        cases = [(path, pathlib.Path(path).read_text(), topology, None) for path in files for topology in TOPOLOGIES]
        for number in range(options.drawn):
            path = pathlib.Path(folder) / f"drawn{number}.txt"
            path.write_text(draw(random_, random_.randint(4, 14), branched=number % 2))
            memory = random_.choice([None, None, 3e8, 2e9])
            cases.append((path, path.read_text(), random_.choice(TOPOLOGIES), memory))
        for path, text, (workers, bandwidths), memory in cases:
            profile = Profile(text)
            for straight in (False, True):
                result = compare(tool, path, profile, workers, bandwidths, straight, memory)
                results[result] = results.get(result, 0) + 1
    print(*(f"{name}: {count}" for name, count in sorted(results.items())), sep="\n")


if __name__ == "__main__":
    main()
