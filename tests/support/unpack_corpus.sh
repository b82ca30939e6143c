#!/bin/sh
# unpack_corpus DIR NAME...: recordings of the corpus as plain .etl files in DIR, for programs that cannot read .xz.
# Without the corpus DIR stays empty: tests then skip.
set -eu
to=$1
shift
from=${PROCFLEET_CORPUS:-../shared/corpus}/public
mkdir -p "$to"
for name in "$@"; do
  if [ -f "$to/$name.etl" ]; then
    continue
  elif [ -f "$from/$name.etl.xz" ]; then
    xz -dc "$from/$name.etl.xz" >"$to/$name.tmp"
    mv "$to/$name.tmp" "$to/$name.etl"
  elif [ -f "$from/$name.etl" ]; then
    cp "$from/$name.etl" "$to/$name.etl"
  fi
done
