"""Stories to begin with: each can be played, and those with a broken rule need it broken."""

import pytest

from epoxy_sim.playground.rules import MUTANTS
from epoxy_sim.playground.stories import STORIES, Story
from epoxy_sim.playground.table import Settings, replay


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.title)
def test_every_story_can_be_played(story: Story) -> None:
    table = replay(Settings(n=story.n, seed=story.seed, mutant=story.mutant), story.steps)
    assert table.failure is None, "the last step is the visitor's"
    assert len(table.told) == len(story.steps)


def found(story: Story, mutant: str | None) -> str | None:
    """What the judge says when the oldest message of the story is delivered."""
    table = replay(Settings(n=story.n, seed=story.seed, mutant=mutant), story.steps)
    table.do(story.last)
    return table.failure.rule if table.failure is not None else None


BROKEN = [story for story in STORIES if story.mutant is not None]


@pytest.mark.parametrize("story", BROKEN, ids=lambda story: story.title)
def test_a_story_of_a_broken_rule_ends_with_the_judge_and_holds_when_it_is_not_broken(story: Story) -> None:
    assert story.mutant in MUTANTS
    assert found(story, story.mutant) is not None
    assert found(story, None) is None


def test_there_are_stories_of_both_kinds() -> None:
    assert len(BROKEN) >= 3
    assert len(STORIES) - len(BROKEN) >= 3
