"""Include direction, as layers.txt says. Also: includes are written from the root, own header first, then <system>, then ours."""
import fnmatch
import re

import source

PRODUCT = ("common/", "agent/", "collector/")
GENERATED = re.compile(r"proto/\w+\.pb-c\.h")
GENERATED_MODULE = "proto/generated"


def module_of(path):
    return re.sub(r"\.[ch]$", "", path)


def folder_of(path):
    return path.rsplit("/", 1)[0] + "/"


def read_rules(path):
    """modules: [(pattern, patterns)]; guards: [(system header pattern, module patterns)]; contracts: folder -> headers."""
    groups, modules, guards, contracts = {}, [], [], {}

    def expand(words):
        result = []
        for word in words:
            result += groups[word] if word.startswith("@") else [GENERATED_MODULE if word == "generated" else word]
        return result

    for line in source.read(path).splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        left, right = (part.split() for part in re.split(r"=|<-| :(?= |$)", line, maxsplit=1))
        if left[0].endswith("/") and "<-" not in line:
            contracts[left[0]] = {left[0] + name for name in right}
        elif "=" in line and left[0].startswith("@"):
            groups[left[0]] = expand(right)
        elif left[0].startswith("<"):
            guards += [(name.strip("<>"), expand(right)) for name in left]
        else:
            modules += [(name, expand(right)) for name in left]
    return modules, guards, contracts


def fits(name, pattern):
    if pattern.endswith("/"):
        return folder_of(name) == pattern
    return fnmatch.fnmatchcase(name, pattern)


def matches(name, patterns):
    return any(fits(name, pattern) for pattern in patterns)


def rule_for(module, modules):
    """The rule that names the module itself, else the first pattern that fits; None without one."""
    for name, allowed in modules:
        if name == module:
            return allowed
    for pattern, allowed in modules:
        if fits(module, pattern):
            return allowed
    return None


def check_ours(path, line, name, allowed, contracts):
    module = module_of(path)
    target = module_of(name)
    if GENERATED.fullmatch(name):
        target = GENERATED_MODULE
    elif not (source.ROOT / name).is_file():
        yield f'{path}:{line}: "{name}" is not a path from the root of the tree'
        return
    room = folder_of(target)
    if folder_of(module) != room and not matches(target, allowed):
        yield f"{path}:{line}: {module} may not include {target} (tests/lint/layers.txt)"
    # Tests look anywhere; a folder inside the room sees the room's private headers.
    if room in contracts and target not in contracts[room] and not module.startswith((room, "tests/")):
        yield f"{path}:{line}: {name} is private to {room} (tests/lint/layers.txt names what others may include)"


def check_order(path, found):
    """Own header (or the one implemented here, or the tested one) first, then <system>, then "project"."""
    own = module_of(path) + ".h"
    seen_project = False
    for index, (line, name, is_system) in enumerate(found):
        if index > 0 and name == own and path.endswith(".c"):
            yield f"{path}:{line}: the own header comes first"
        if is_system and seen_project:
            yield f"{path}:{line}: <{name}> comes before the project's headers"
        if not is_system and index > 0:
            seen_project = True


def check_rules(modules, contracts, paths):
    """Every rule is about something: its module and all that it allows exist, and every room has a contract."""
    names = {module_of(path) for path in paths} | {GENERATED_MODULE}
    for name, allowed in modules:
        for pattern in [name, *allowed]:
            if not any(fits(each, pattern) for each in names):
                yield f"tests/lint/layers.txt: {pattern} in the rule for {name} fits no file"
    for room, headers in contracts.items():
        for header in sorted(headers):
            if header + ".h" not in paths:
                yield f"tests/lint/layers.txt: {header}.h in the contract of {room} does not exist"
    for room in sorted({folder_of(path) for path in paths if path.startswith(PRODUCT)}):
        if room not in contracts:
            yield f"tests/lint/layers.txt: {room} has no contract"


def check_cycles(graph):
    """Headers that reach themselves, found by peeling off those that include nothing left."""
    left = {header: set(targets) for header, targets in graph.items()}
    while True:
        free = [header for header, targets in left.items() if not targets & left.keys()]
        if not free:
            break
        for header in free:
            del left[header]
    if left:
        yield "headers include each other in a circle, among: " + ", ".join(sorted(left))


def main():
    modules, guards, contracts = read_rules("tests/lint/layers.txt")
    problems = []
    graph = {}
    paths = source.files(".c", ".h")
    for path in paths:
        module = module_of(path)
        found = list(source.includes(path))
        problems += check_order(path, found)
        allowed = rule_for(module, modules)
        if allowed is None:
            problems.append(f"{path}: no rule in tests/lint/layers.txt says what it may include")
            allowed = ["*"]
        for line, name, is_system in found:
            if not is_system:
                problems += check_ours(path, line, name, allowed, contracts)
                if path.endswith(".h"):
                    graph.setdefault(path, set()).add(name)
                continue
            for pattern, includers in guards:
                if fnmatch.fnmatchcase(name, pattern) and not matches(module, includers):
                    problems.append(f"{path}:{line}: <{name}> may not be included here (tests/lint/layers.txt)")
    problems += sorted(set(check_rules(modules, contracts, paths)))
    problems += check_cycles(graph)
    source.report("lint_layers", problems, f"{len(paths)} files, {len(modules)} rules, no upward include")


main()
