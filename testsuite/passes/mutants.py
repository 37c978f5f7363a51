"""Changes the IR of the other tests at random and runs passes on it: pdc-opt may refuse, not crash.

usage: mutants.py PDC_OPT FOLDER SEED COUNT; prints each mutant that ends pdc-opt by a signal.
"""
import pathlib
import random
import re
import subprocess
import sys

ORDER = ["infer-shapes", "canonicalize", "differentiate", "append-optimizer=optimizer=momentum,lr=0.1",
         "label-phases", "cse", "form-units", "choose-kernels", "estimate-cost",
         "assign-stages=plan={plan}", "insert-cuts", "verify-level=level=cut", "outline-programs",
         "fuse-products", "verify-level=level=staged",
         "build-schedule=schedule=1f1b microbatches=2", "version-weights", "place-transfers",
         "assign-homes", "plan-memory", "verify-schedule",
         "name-values", "verify-level=level=scheduled"]
NUMBERS = ["0", "-1", "1", "7", "65536", "4294967296", "9223372036854775807"]
TYPES = ["tensor<*xf32>", "tensor<?xf32>", "tensor<0xf32>", "none", "f32", "tensor<f32>",
         "tensor<2xi64>", "tensor<2xi4>", "tensor<3000000000x3000000000xf32>", "tensor<4x4xf32>",
         'tensor<2xf32, #pdc.layout<"nonsense">>', "tensor<2xf32, 3 : i64>"]
VALUES = ["unit", '"x"', "[]", "{}", "array<i64: -1>", "array<i64: 5, 9>", "true", "0.0 : f64",
          "-1 : i64", "dense<0> : tensor<2xi64>", "@x", "9223372036854775807 : i64", "f32"]
KEYWORDS = ["weight", "derived", "constant", "input", "state", "optimizer", "gradient", "activation",
            "metric", "inbox", "outbox", "once", "version", "microbatch", "update", "forward",
            "backward", "prepare", "evaluate", "latest", "of_microbatch"]
INTEGER = r"(?<![\w.#%@<-])-?\d+(?![\w.])"
TENSOR = r"tensor<[^<>]*(?:<[^<>]*>)?[^<>]*>"
ATTRIBUTE = r"= ((?:[^,{}\[\]<>()=]|<[^<>]*>|\[[^\[\]]*\])+?)(?=[,}>])"


def swap(draw, text, pattern, choices):
    """One match of the pattern becomes one of the choices."""
    found = list(re.finditer(pattern, text))
    if not found or not choices:
        return text
    match = draw.choice(found)
    group = match.re.groups and 1
    return text[:match.start(group)] + draw.choice(choices) + text[match.end(group):]


def mutate(draw, text):
    lines = text.split("\n")
    line = draw.randrange(len(lines))
    kind = draw.randrange(10)
    if kind == 0:
        del lines[line]
    elif kind == 1:
        lines.insert(draw.randrange(len(lines)), lines[line])
    elif kind == 2:
        other = draw.randrange(len(lines))
        lines[line], lines[other] = lines[other], lines[line]
    else:
        pattern, choices = [
            (INTEGER, NUMBERS), (TENSOR, TYPES), (ATTRIBUTE, VALUES),
            (r"%[\w.]+(?:#\d+)?", re.findall(r"%[\w.]+(?:#\d+)?", text)),
            (r'"[^"\n]*"', re.findall(r'"[^"\n]*"', text) + ['""', '"Sum"']),
            (r"\b(?:" + "|".join(KEYWORDS) + r")\b", KEYWORDS),
            (r"@[\w.]+", re.findall(r"@[\w.]+", text))][kind - 3]
        return swap(draw, text, pattern, choices)
    return "\n".join(lines)


def seeds(pdc_opt, folder):
    """The modules of all tests, and one of them after each pass."""
    modules = []
    for path in sorted(folder.glob("*/*.mlir")):
        for part in re.split(r"\n// -----\n", path.read_text()):
            module = re.sub(r"(?m)^\s*//.*\n", "", part)
            if "pdc." in module and module.count("\n") < 300:
                modules.append(module)
    passes = []
    for name in ORDER[ORDER.index("insert-cuts"):]:
        passes.append("--" + name)
        lowered = subprocess.run([pdc_opt, folder / "passes/outline-programs.mlir", *passes],
                                 capture_output=True, text=True, check=True)
        modules.append(lowered.stdout)
    return modules


def is_refused(pdc_opt, text):
    """Without any pass. Once it has refused a text, MLIR 19's parser may write to what it has freed:
    `"x"(%a) : (f32) -> ()` before a function that makes %a and is wrong behind it."""
    alone = subprocess.run([pdc_opt, "-o", "/dev/null"], input=text, text=True,
                           capture_output=True, timeout=60, check=False)
    return alone.returncode != 0 and "error: " in alone.stderr


def main():
    pdc_opt, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    draw = random.Random(int(sys.argv[3]))
    modules = seeds(pdc_opt, folder)
    plan = folder / "passes/Inputs/two-stages.json"
    crashes = 0
    for _ in range(int(sys.argv[4])):
        text = draw.choice(modules)
        for _ in range(draw.choice([1, 1, 2, 3])):
            text = mutate(draw, text)
        first = draw.randrange(len(ORDER))
        last = draw.choice([first + 1, len(ORDER)])
        passes = ["--" + name.format(plan=plan) for name in ORDER[first:last]]
        ended = subprocess.run([pdc_opt, *passes, "-o", "/dev/null"], input=text, text=True,
                               capture_output=True, timeout=60, check=False)
        if ended.returncode not in (0, 1) and not is_refused(pdc_opt, text):
            crashes += 1
            print(ended.returncode, *passes, "\n" + text + "\n" + ended.stderr)
    sys.exit(crashes > 0)


if __name__ == "__main__":
    main()
