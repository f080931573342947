"""`python -m tests.fuzz [NAME ...] --inputs 1000000`: mutated conversations with every protocol that a node listens to.

Exit code 1 if something was found; the command that repeats the run is printed first."""

import argparse
import random
import sys
import time

from tests.fuzz.harness import Finding, fuzz
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(description="Feed mutated conversations to the protocols of a node.")
    parser.add_argument("names", nargs="*", choices=[*TARGETS, []], metavar="NAME", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="for each (default 1000000)")
    parser.add_argument("--seed", type=int, default=None, help="drawn anew and printed if not given")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    failed = False
    for name in options.names or TARGETS:
        print(f"replay: python -m tests.fuzz {name} --inputs {options.inputs} --seed {seed}", flush=True)
        began = time.perf_counter()
        try:
            with TARGETS[name]() as target:
                verdicts = fuzz(target, options.inputs, seed)
        except Finding as finding:
            failed = True
            print(f"FOUND {finding}", flush=True)
            continue
        rate = verdicts.total() / (time.perf_counter() - began)
        told = ", ".join(f"{word} {count}" for word, count in verdicts.most_common())
        print(f"{name}: {verdicts.total()} inputs, {rate:.0f} a second, nothing found: {told}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
