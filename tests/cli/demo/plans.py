"""Plans of demos that are not started."""

from pathlib import Path

from epoxy.cli.demo.plan import DemoPlan, plan

NOWHERE = 65_000
"""Where no other program of the machine listens."""


def a_plan(folder: Path, size: int = 3, *, wan: bool = True) -> DemoPlan:
    return plan(folder, regions=size, port_base=NOWHERE, wan=wan)
