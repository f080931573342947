"""On which line of a TOML file a setting stands."""

from pathlib import Path

import pytest

from epoxy.model.errors import ConfigError
from epoxy.node.process.toml_file import TomlSource, names, parse

TEXT = """# [node] in a comment
[node]
id = 1
"data_dir" = "x"
[ 'cluster' ] # with a comment
members = [
    { id = 1 },
]
[[extra.list]]
key = 2
wan = { emulate = true }
"""


def test_every_line_that_begins_a_name_has_its_number() -> None:
    assert list(names(TEXT)) == [
        (2, "node"),
        (3, "node.id"),
        (4, "node.data_dir"),
        (5, "cluster"),
        (6, "cluster.members"),
        (7, "cluster.{id"),
        (9, "extra.list"),
        (10, "extra.list.key"),
        (11, "extra.list.wan"),
    ]


@pytest.mark.parametrize(
    ("section", "key", "where"),
    [
        ("node", "id", "f.toml, line 3"),
        ("node", "absent", "f.toml, line 2"),
        ("node", None, "f.toml, line 2"),
        ("extra", None, "f.toml, line 9"),
        ("absent", "id", "f.toml"),
        ("cluster", "members", "VARIABLE"),
    ],
)
def test_a_place_is_the_nearest_that_is_known(section: str, key: str | None, where: str) -> None:
    source = TomlSource(Path("f.toml"), TEXT)
    source.outside["cluster.members"] = "VARIABLE"
    assert source.where(section, key) == where


def test_a_file_is_parsed_and_its_folder_is_absolute(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text("[a]\nb = 1\n")
    source, document = parse(path)
    assert (document, source.folder) == ({"a": {"b": 1}}, tmp_path)
    path.write_text("[a\n")
    with pytest.raises(ConfigError, match="is not TOML"):
        parse(path)
