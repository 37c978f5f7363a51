"""Reads a report as a browser would and says whether it keeps its promises.

    check_report.py REPORT.html [TEXT...]     each TEXT must stand in it, letter by letter, as text
"""
import html.parser
import pathlib
import re
import sys

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.problems, self.count = [], [], [], {}

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        names = dict(attributes)
        if tag in ("script", "link", "img", "iframe", "object", "embed", "use", "image", "foreignobject"):
            self.problems.append(f"<{tag}>: the report needs nothing but itself")
        for name, value in attributes:
            if name.startswith("on") or name in ("src", "href", "xlink:href"):
                self.problems.append(f"<{tag} {name}={value}>")
        if tag == "svg" and "aria-label" not in names and names.get("aria-hidden") != "true":
            self.problems.append("a drawing without a label")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")

    def handle_data(self, data):
        self.text.append(data)


def main():
    path = pathlib.Path(sys.argv[1])
    content = path.read_text(encoding="utf-8", errors="strict")
    reader = Reader()
    reader.feed(content)
    reader.close()
    problems = reader.problems + [f"<{tag}> stays open" for tag in reader.open]
    if re.search(r"url\(|@import|https?:", content):
        problems.append("names something outside")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", content):
        problems.append("has control characters")
    if re.search(r'="[^"]*\b(nan|inf)\b', content) or re.search(r">-?(nan|inf)\b", content):
        problems.append("has numbers that are none")
    if len(content) > 2_000_000:
        problems.append(f"has {len(content)} bytes")
    text = "\n".join(reader.text)
    problems += [f"does not say {wanted!r}" for wanted in sys.argv[2:] if wanted not in text]
    for problem in problems:
        print(f"{path}: {problem}")
    print(f"{reader.count.get('rect', 0)} bars, {reader.count.get('circle', 0)} dots, "
          f"{reader.count.get('figure', 0)} charts, {reader.count.get('tr', 0)} rows")
    sys.exit(bool(problems))


main()
