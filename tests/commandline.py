"""The command line, run in this process or in one of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from trnsim.cli import main


def trnsim(*arguments: str) -> int:
    """Run the command line in this process and return its exit code."""
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code


def modules_loaded_by(*arguments: str) -> set[str]:
    """Return the names of the modules that a run of the command line loads, in a process of its own."""
    code = (
        "import sys, atexit, json\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        f"from trnsim.cli import main; main({list(arguments)!r})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return set(json.loads(run.stderr.splitlines()[-1]))
