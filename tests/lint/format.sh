#!/usr/bin/env bash
# clang-format agrees with every C file; shellcheck with every script. A missing or other version is a printed skip.
set -euo pipefail
cd "$(dirname "$0")/../.."

bad=0
skipped=0
if command -v clang-format-14 >/dev/null; then
  format=clang-format-14
elif clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
  format=clang-format
else
  format=
  echo "skipped: clang-format 14 is not installed (others format differently)"
  skipped=1
fi
if [ -n "$format" ]; then
  find cmake common agent collector docs tests -name '*.[ch]' -print0 | xargs -0 -r "$format" --dry-run --Werror || bad=1
fi

if command -v shellcheck >/dev/null; then
  mapfile -t scripts < <(grep -rlIE '^#!(/usr/bin/env bash|/bin/bash|/bin/sh)' scripts .ci tests)
  shellcheck -x "${scripts[@]}" || bad=1
else
  echo "skipped: shellcheck is not installed"
  skipped=1
fi

if [ $bad -ne 0 ]; then
  exit 1
fi
[ $skipped -eq 0 ] || exit 77
