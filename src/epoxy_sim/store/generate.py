"""From a seed to a plan: some lives of a store, and at the end, in most plans, a disk that is not what it was."""

from random import Random

from msgspec.structs import replace

from epoxy_sim.store.plan import DAMAGES, StorePlan, StoreStep, StoreStepKind

KEYS = 12
SIZES = (0, 1, 20, 20, 100, 600, 1500)
"""The longer ones cover whole sectors, and may be all zeros."""


def generate(seed: int) -> StorePlan:
    dice = Random(f"store/{seed}")
    steps = [draw_step(dice) for _ in range(dice.randint(5, 60))]
    if dice.random() < 0.7:
        steps += draw_damage(dice)
    log_bytes = dice.choice((512, 2048, 8192))
    return StorePlan(seed=seed, log_bytes=log_bytes, steps=tuple(draw_urgency(step, dice) for step in steps))


def draw_urgency(step: StoreStep, dice: Random) -> StoreStep:
    delayed = step.kind is StoreStepKind.COMMIT and dice.random() < 0.2
    return replace(step, kind=StoreStepKind.DELAYED) if delayed else step


def draw_step(dice: Random) -> StoreStep:
    kind = dice.choices((StoreStepKind.COMMIT, StoreStepKind.WAIT, StoreStepKind.CRASH), (10, 10, 3))[0]
    if kind is StoreStepKind.COMMIT:
        rows = {dice.randrange(KEYS): dice.choice((*SIZES, -1)) for _ in range(dice.randint(1, 4))}
        return StoreStep(kind=kind, rows=tuple(rows.items()))
    if kind is StoreStepKind.WAIT:
        return StoreStep(kind=kind, share=dice.choice((0.02, 0.2, 1.0, 5.0)))
    if dice.random() < 0.2:
        return StoreStep(kind=dice.choice((StoreStepKind.FULL, StoreStepKind.FAIL)), share=dice.random())
    return StoreStep(kind=kind, share=dice.choice((0.0, dice.random(), 1.0)))


def draw_damage(dice: Random) -> list[StoreStep]:
    """Old copies and lies need something to lose after them."""
    more = [draw_step(dice) for _ in range(dice.randint(2, 20))]
    quiet = [step for step in more if step.kind in (StoreStepKind.COMMIT, StoreStepKind.WAIT)]
    match dice.randrange(3):
        case 0:
            cut = StoreStep(kind=StoreStepKind.CRASH, share=dice.choice((0.0, dice.random())))
            return [StoreStep(kind=StoreStepKind.LIE), *quiet, cut]
        case 1:
            return [StoreStep(kind=StoreStepKind.COPY), *more, StoreStep(kind=StoreStepKind.RESTORE)]
        case _:
            return [StoreStep(kind=dice.choice(DAMAGES))]
