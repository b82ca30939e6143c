"""Every header stands alone: headers.py COMPILER ROOM,ROOM SKIP-PATTERN FLAG... compiles each one by itself."""
import concurrent.futures
import re
import subprocess
import sys

import source


def compile_alone(compiler, flags, header):
    text = f'#include "{header}"\n#include "{header}"\n'
    command = [compiler, "-std=c11", "-fsyntax-only", "-x", "c", *flags, "-I", str(source.ROOT), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


def main():
    compiler, rooms, skip, *flags = sys.argv[1:]
    headers = [path for path in source.files(".h", rooms=rooms.split(",")) if not re.fullmatch(skip, path)]
    problems = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for header, result in zip(headers, pool.map(lambda h: compile_alone(compiler, flags, h), headers)):
            if result.returncode != 0:
                problems.append(f"{header} does not stand alone:\n{result.stderr}")
    source.report("lint_headers", problems, f"{len(headers)} headers stand alone")


main()
