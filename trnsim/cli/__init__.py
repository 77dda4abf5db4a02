"""The command line: the only room that prints or writes files."""

from trnsim.cli.app import main

__all__ = ["main"]
