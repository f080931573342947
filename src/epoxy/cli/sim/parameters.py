"""What people type, checked before anything starts."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from epoxy import __compiled__
from epoxy.cli.groups import refuse
from epoxy.model.quorum import QuorumPolicy
from epoxy_sim.keys.generate import SIZES
from epoxy_sim.members.mutants import MUTANTS
from epoxy_sim.patching import Mutant
from epoxy_sim.worker_pool import cores

Command = TypeVar("Command", bound=Callable[..., Any])


class SeedRange(click.ParamType[range]):
    """`A..B`: from A to before B. `A` alone: that one."""

    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        first, dots, end = value.partition("..")
        if not (first.isdecimal() and (end.isdecimal() if dots else not end)):
            self.fail(f"{value!r} is no range of seeds. Write A..B (B is not included) or one number.", param, ctx)
        seeds = range(int(first), int(end) if dots else int(first) + 1)
        if not seeds:
            self.fail(f"{value!r} is empty: seeds go from A to before B.", param, ctx)
        return seeds


class MutantName(click.ParamType[str]):
    name = "NAME"

    def __init__(self, known: Mapping[str, Mutant]) -> None:
        self._known = known

    def convert(self, value: Any, *_: object) -> str:
        check_known(value, self._known)
        check_plantable()
        return str(value)


def check_known(name: str, mutants: Mapping[str, Mutant]) -> None:
    if name not in mutants:
        refuse(name, "mutant", list(mutants))


def check_plantable() -> None:
    if __compiled__:
        raise click.ClickException("no fault can be planted in compiled code: set EPOXY_PURE=1 to run the sources")


class Policy(click.ParamType[QuorumPolicy]):
    name = "|".join(policy.value for policy in QuorumPolicy)

    def convert(self, value: Any, *_: object) -> QuorumPolicy:
        if isinstance(value, QuorumPolicy):
            return value
        known = {policy.value: policy for policy in QuorumPolicy}
        if value not in known:
            refuse(value, "quorum policy", list(known))
        return known[value]


MAX_N = max(SIZES)
MINUTES = click.FloatRange(min=0, min_open=True)


def seeds_option(default: str) -> Callable[[Command], Command]:
    return click.option(
        "--seeds", type=SeedRange(), default=default, show_default=True, help="Seeds from A to before B, or one seed."
    )


n_option = click.option("--n", type=click.IntRange(1, MAX_N), metavar="N", help="Replicas.  [default: each seed draws]")
policy_option = click.option(
    "--policy", type=Policy(), metavar=Policy.name, help="Quorum sizes.  [default: each seed draws]"
)
mutant_option = click.option(
    "--mutant",
    type=MutantName(MUTANTS),
    help="Plant a fault by name: it must be caught. `epoxy sim mutants` lists them.",
)
minutes_option = click.option(
    "--minutes", type=MINUTES, metavar="M", help="Go on from the first seed until M minutes are over."
)
replay_option = click.option(
    "--replay", type=click.IntRange(min=0), metavar="SEED", help="One seed, with its full trace."
)
keep_going_option = click.option("--keep-going", is_flag=True, help="Do not stop at the first failure.")
jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1, max=512),
    metavar="J",
    default=cores,
    help="Processes. The result is the same for any number.  [default: the cores of this machine]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
shrink_option = click.option(
    "--shrink/--no-shrink",
    "shrinking",
    default=None,
    help="Look for a shortest trace of a failure.  [default: yes, no in a replay]",
)


def command(run: Callable[..., None], made: Callable[[Any], Any], *parameters: Callable[[Any], Any]) -> click.Command:
    """A command that is made, not written down, with its parameters in the order in which its help shows them."""
    decorated: Any = run
    for decorate in reversed(parameters):
        decorated = decorate(decorated)
    finished: click.Command = made(decorated)
    return finished
