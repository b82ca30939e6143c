"""The console's page: every module parses and finds what it imports (where node is), is loaded at once by index.html, and
nothing is in it that the page's content policy forbids or that asks another origin."""
import json
import re
import shutil
import subprocess

import source

WEB = "collector/console/web/"
MAX_COLUMNS = 120

# Parses every module and links the graph as a browser would; runs nothing.
NODE = """
const vm = require('vm'), fs = require('fs'), path = require('path');
const [root, names] = [process.argv[1], JSON.parse(process.argv[2])];
const known = new Map();
function load(file) {
    if (!known.has(file)) known.set(file, new vm.SourceTextModule(fs.readFileSync(file, 'utf8'), {identifier: file}));
    return known.get(file);
}
(async () => {
    for (const name of names) {
        const at = path.join(root, name);
        try {
            const m = load(at);
            if (m.status === 'unlinked') await m.link((to, from) => load(path.join(path.dirname(from.identifier), to)));
        } catch (e) { console.log(`${name}: ${String(e.stack).split('\\n').slice(0, 3).join(' ')}`); }
    }
})();
"""

FORBIDDEN = [
    (r"\b(?:inner|outer)HTML\b|insertAdjacentHTML|document\.write|createContextualFragment", "texts are nodes, never markup"),
    (r"\beval\s*\(|\bnew Function\b|\bsetTimeout\s*\(\s*['\"]", "no code is made from text"),
    (r"""\sstyle\s*=\s*["']|setAttribute\(\s*['"]style""", "a style attribute is refused by the page's policy"),
    (r"""["'(]\s*(?:https?:)?//[\w\[]""", "an address of another origin"),
    (r"\son\w+\s*=\s*[\"']", "a handler as an attribute is refused by the page's policy"),
    (r"<script(?![^>]*\ssrc=)", "a script inside the page is refused by its policy"),
    (r"\bdebugger\b|console\.log", "left over from looking for a fault"),
    (r"(?m)^(?:<{7}|={7}|>{7})", "left over from a merge"),
]
# The names of XML's languages are addresses that nobody asks.
NAMESPACE = re.compile(r"http://www\.w3\.org/(?:2000/svg|1999/xlink)")


def check_text(path, raw):
    text = NAMESPACE.sub(lambda m: " " * len(m.group(0)), raw)
    for pattern, why in FORBIDDEN:
        for match in re.finditer(pattern, text):
            yield f"{path}:{source.line_of(text, match.start())}: {match.group(0).strip()}: {why}"
    for number, line in enumerate(raw.splitlines(), 1):
        if len(line) > MAX_COLUMNS:
            yield f"{path}:{number}: {len(line)} columns, the limit is {MAX_COLUMNS}"


def check_index(names, index):
    preloaded = set(re.findall(r'<link rel="modulepreload" href="\./([^"]+)">', index))
    for name in names:
        if name not in preloaded and f'<script type="module" src="./{name}">' not in index:
            yield f"{WEB}{name}: index.html has no modulepreload for it"
    for name in preloaded - set(names):
        yield f"{WEB}index.html: modulepreload of {name}, which is not there"


def main():
    paths = [path for path in source.files(".js", ".css", ".html", ".svg", rooms=("collector",)) if path.startswith(WEB)]
    names = [path.removeprefix(WEB) for path in paths if path.endswith(".js")]
    problems = []
    for path in paths:
        problems += check_text(path, source.read(path))
    problems += check_index(names, source.read(WEB + "index.html"))
    parsed = "node is not here: not parsed"
    node = shutil.which("node")
    if node:
        result = subprocess.run([node, "--no-warnings", "--experimental-vm-modules", "-e", NODE, str(source.ROOT / WEB), json.dumps(names)],
                                capture_output=True, text=True, check=False)
        problems += [WEB + line for line in (result.stdout + result.stderr).splitlines()]
        parsed = f"{len(names)} modules parsed and linked"
    source.report("lint_web", problems, f"{len(paths)} files; {parsed}")


if __name__ == "__main__":
    main()
