import os
from pathlib import Path

import pytest

from trnsim.documents import canonical, data_folder, existing, finding, locate, names, nearest, refuse_unknown
from trnsim.errors import InputError


@pytest.mark.parametrize(
    ("word", "best"),
    [
        ("trn2-48xl", "trn2.48xlarge"),
        ("TRN1_32XLARGE", "trn1.32xlarge"),
        ("ultraserver", "trn2-ultraserver"),
        ("h100", None),
    ],
)
def test_nearest_ignores_case_and_dashes_and_knows_when_nothing_is_near(word: str, best: str | None) -> None:
    # likeness = matching share of the letters and digits; below 0.6 nothing is near
    found = nearest(word, ["trn1.32xlarge", "trn2.48xlarge", "trn2-ultraserver"], n=1)
    assert found == (() if best is None else (best,))


def test_unknown_name_lists_the_known_and_the_near() -> None:
    # rule 21: an unknown chip is an error with the list of known ones
    message = refuse_unknown("chip", "trainium9", ["trainium2", "trainium1"])
    assert message == 'unknown chip "trainium9"; did you mean trainium1 or trainium2? known: trainium1, trainium2'
    assert refuse_unknown("chip", "x", []) == 'unknown chip "x"; known: none'


def test_canonical_keeps_the_mark_of_a_variant() -> None:
    # only letters, digits and @ count
    assert canonical("Trn3-Gen2@Pessimistic") == "trn3gen2@pessimistic"


@pytest.mark.parametrize("kind", ["scenarios", "topologies"])
def test_data_lies_beside_the_package_in_a_checkout(kind: str) -> None:
    # an editable install has no _data folder: the folder of the checkout is used
    assert data_folder(kind) == Path(__file__).resolve().parents[2] / kind


def test_data_lies_inside_the_package_of_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # package/_data/KIND wins over KIND beside the package
    for folder in (tmp_path / "trnsim" / "_data" / "scenarios", tmp_path / "scenarios"):
        folder.mkdir(parents=True)
        (folder / f"{folder.parent.name}.yaml").touch()
    monkeypatch.setattr(finding, "_package_folder", lambda: tmp_path / "trnsim")
    assert names("scenarios") == ("_data",)


def test_an_existing_path_beats_a_name(tmp_path: Path) -> None:
    # order: the path relative to the file it is written in, then the named entries
    folder = tmp_path / "entries"
    folder.mkdir()
    (folder / "a.yaml").touch()
    (folder / "b.json").touch()
    (tmp_path / "a").touch()
    assert locate("things", "a", relative_to=tmp_path, folder=folder) == tmp_path / "a"
    assert locate("things", "a", relative_to=folder, folder=folder) == folder / "a.yaml"
    assert locate("things", "b", relative_to=tmp_path, folder=folder) == folder / "b.json"
    assert locate("things", str(folder / "b.json")) == folder / "b.json"
    assert names("things", folder) == ("a", "b")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("trn3-millions", 'unknown scenario "trn3-millions"; did you mean trn3-million? known: trn3-million'),
        (
            "scenarios/trn3-milion.yml",
            'no such file; unknown scenario "trn3-milion"; did you mean trn3-million? known: trn3-million',
        ),
    ],
)
def test_what_is_nowhere_gets_near_matches(tmp_path: Path, word: str, message: str) -> None:
    # neither a file nor a name
    (tmp_path / "trn3-million.yaml").touch()
    with pytest.raises(InputError) as error:
        locate("scenarios", word, tmp_path / "elsewhere", tmp_path)
    assert error.value.problems[0].message == message


@pytest.mark.parametrize("word", ["mine", "mien.yaml", "sub/mine", "./mine.yml"])
def test_a_file_nearby_is_named(tmp_path: Path, word: str) -> None:
    # who forgets the suffix, or mistypes the name of a file of his own
    (tmp_path / "sub").mkdir()
    for folder in (tmp_path, tmp_path / "sub"):
        (folder / "mine.yaml").touch()
    there = Path(word).parent / "mine.yaml"
    with pytest.raises(InputError, match=f"there is a file {there}; unknown scenario"):
        locate("scenarios", word, relative_to=tmp_path)


@pytest.mark.parametrize("words", ["", ".", "~nobody-of-that-name/x", "x" * 5000, "a\0b", "../things/a", "a.yaml"])
def test_any_words_are_found_or_refused(tmp_path: Path, words: str) -> None:
    # what is no path and no name is a problem, never an error of the system; a name does not climb out of its folder
    (tmp_path / "things").mkdir()
    (tmp_path / "others").mkdir()
    (tmp_path / "things" / "a.yaml").touch()
    assert existing(words, tmp_path) is None
    with pytest.raises(InputError) as error:
        locate("things", words, tmp_path, tmp_path / "others")
    assert 'unknown thing "' in str(error.value)
    assert max(map(len, str(error.value).splitlines()[1:])) < 120


def test_a_directory_is_said_to_be_one(tmp_path: Path) -> None:
    # but a name wins over a directory that is called so
    (tmp_path / "a").mkdir()
    (tmp_path / "b.yaml").touch()
    with pytest.raises(InputError, match='a directory, not a file; unknown thing "a"'):
        locate("things", "a", tmp_path, tmp_path)
    (tmp_path / "b").mkdir()
    assert locate("things", "b", tmp_path, tmp_path) == tmp_path / "b.yaml"


def test_a_pipe_is_a_file(tmp_path: Path) -> None:
    # trnsim run <(make-a-scenario)
    os.mkfifo(tmp_path / "pipe")
    assert existing("pipe", tmp_path) == tmp_path / "pipe"
