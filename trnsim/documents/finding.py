"""Finding the files that a name stands for: a path of the user, or an entry that comes with trnsim."""

from __future__ import annotations

from pathlib import Path

from trnsim.documents.names import nearest, refuse_unknown
from trnsim.errors import InputError, Problem

__all__ = ["data_folder", "existing", "locate", "names"]

_SUFFIXES = (".yaml", ".yml", ".json")


def data_folder(kind: str) -> Path:
    """Return the folder of the scenarios or topologies that come with trnsim.

    A wheel carries them inside the package; in a checkout they lie beside it.

    Parameters
    ----------
    kind
        ``"scenarios"`` or ``"topologies"``.
    """
    package = _package_folder()
    packaged = package / "_data" / kind
    return packaged if packaged.is_dir() else package.parent / kind


def names(kind: str, folder: Path | None = None) -> tuple[str, ...]:
    """Return the names of the entries of a kind, sorted.

    Parameters
    ----------
    kind
        ``"scenarios"`` or ``"topologies"``; any word when a folder is given.
    folder
        Where the entries lie; by default :func:`data_folder`.
    """
    where = data_folder(kind) if folder is None else folder
    return tuple(sorted(file.stem for file in where.glob("*") if file.suffix in _SUFFIXES))


def existing(path: str, relative_to: Path | None = None) -> Path | None:
    """Return the file at a path that a user wrote, or ``None``: a directory is no file, and any text may be no path.

    Parameters
    ----------
    path
        With ``~`` for the home directory.
    relative_to
        Folder to which the path is relative. By default the working directory.
    """
    found = _at(path, relative_to)
    return None if found is None or found.is_dir() else found


def locate(kind: str, name_or_path: str, relative_to: Path | None = None, folder: Path | None = None) -> Path:
    """Return the file that a name or a path stands for; an existing path beats a name.

    Parameters
    ----------
    kind
        ``"scenarios"`` or ``"topologies"``; any plural when a folder is given.
    name_or_path
        What the user wrote.
    relative_to
        Folder to which a path is relative: that of the file it is written in. By default the working directory.
    folder
        Where the named entries lie; by default :func:`data_folder`.

    Raises
    ------
    InputError
        If there is neither such a file nor such a name, with near matches.
    """
    if (path := existing(name_or_path, relative_to)) is not None:
        return path
    where = data_folder(kind) if folder is None else folder
    known = names(kind, where)
    if name_or_path in known:
        return next(file for suffix in _SUFFIXES if (file := where / f"{name_or_path}{suffix}").is_file())
    raise InputError([Problem("", _not_found(kind, name_or_path, known, relative_to))], file=name_or_path)


def _package_folder() -> Path:
    return Path(__file__).resolve().parent.parent


def _at(path: str, relative_to: Path | None) -> Path | None:
    """Return what exists at a path, or ``None``."""
    try:
        written = Path(path).expanduser()
        found = written if relative_to is None else relative_to / written
        return found if path and found.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long a name, no such home, a null character
        return None


def _not_found(kind: str, name_or_path: str, known: tuple[str, ...], relative_to: Path | None) -> str:
    singular = kind[:-3] + "y" if kind.endswith("ies") else kind.removesuffix("s")
    stem = Path(name_or_path).name
    is_path = stem.endswith(_SUFFIXES) or "/" in name_or_path
    is_directory = _at(name_or_path, relative_to) is not None
    reason = "a directory, not a file; " if is_directory else "no such file; " if is_path else ""
    word = next((stem.removesuffix(suffix) for suffix in _SUFFIXES if stem.endswith(suffix)), stem)
    files = _files_beside(name_or_path, relative_to)
    hint = "".join(f"there is a file {files[near]}; " for near in nearest(word, files, n=1))
    return reason + hint + refuse_unknown(singular, word, known)


def _files_beside(path: str, relative_to: Path | None) -> dict[str, str]:
    """Return the files that lie where one was looked for: their stems, and how a user would write them."""
    parent = Path(path).parent
    folder = _at(str(parent), relative_to)
    try:
        found = sorted(folder.iterdir()) if folder else []
    except OSError:  # no folder, or one that may not be looked into
        return {}
    return {file.stem: str(parent / file.name) for file in found if file.suffix in _SUFFIXES and file.is_file()}
