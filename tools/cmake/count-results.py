"""Adds up the JUnit files of a folder and prints "N passed, N failed, N skipped"; exits 1 on failures."""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("status") == "notrun" or case.get("result") == "skipped":
        return "skipped"
    return "passed"


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def main():
    folder = pathlib.Path(sys.argv[1])
    count = {"passed": len(lines(folder / "passed")), "failed": 0, "skipped": 0}
    for name in lines(folder / "crashed"):
        print(f"failed: {name} did not finish")
        count["failed"] += 1
    for path in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(path).iter("testcase"):
            result = outcome(case)
            count[result] += 1
            if result != "passed":
                print(f"{result}: {path.stem}: {case.get('classname')}.{case.get('name')}")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**count))
    return 1 if count["failed"] or not count["passed"] else 0


sys.exit(main())
