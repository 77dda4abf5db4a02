"""Execute the notebooks of this folder: `python notebooks/execute.py [--out DIR]`; the files here stay as they are.

The executed copies and their figures go to DIR, by default out/notebooks. With --strip, nothing is executed: the files
lose their outputs, as git wants them.
"""

import argparse
import base64
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
TIMEOUT_S = 300


def execute(path: Path, out: Path) -> nbformat.NotebookNode:
    """Execute a notebook; write the executed copy and its figures."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=TIMEOUT_S, resources={"metadata": {"path": FOLDER}}).execute()
    out.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, out / path.name)
    for number, png in enumerate(figures(notebook), start=1):
        (out / f"{path.stem}-{number}.png").write_bytes(png)
    return notebook


def figures(notebook: nbformat.NotebookNode) -> list[bytes]:
    """Return the figures of an executed notebook as PNG, in order."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    images = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    return [base64.b64decode(image) for image in images]


def strip(path: Path) -> None:
    """Take outputs and execution counts out of a notebook."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER.parent / "out" / "notebooks")
    parser.add_argument("--strip", action="store_true")
    arguments = parser.parse_args()
    for path in sorted(FOLDER.glob("*.ipynb")):
        if arguments.strip:
            strip(path)
        else:
            execute(path, arguments.out)
            print(f"{path.name} -> {arguments.out}")


if __name__ == "__main__":
    main()
