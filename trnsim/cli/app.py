"""The `trnsim` command: a group whose commands are imported when they are invoked, and the exit codes.

0 done; 1 a gate failed; 2 input; 3 legal but the cluster is too small; 4 stalled; 70 a bug of ours.
"""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import rich_click as click

from trnsim.cli.output import say
from trnsim.errors import TrnsimError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_INPUT, _BUG, _INTERRUPTED = 2, 70, 130

_COMMANDS = {
    "run": "Simulate a scenario and explain its training step.",
    "memory": "Follow the memory of a scenario's ranks through a step: peak by term and stage.",
    "check": "Report every problem of a scenario, without simulating it.",
    "describe": "Show a scenario, chip, server, topology, family or model, with sources.",
    "list": "List the chips, servers, topologies, models, families or scenarios.",
    "compare": "Simulate scenarios and set them side by side.",
    "validate": "Simulate measured training steps and print the errors, set by set.",
    "calibrate": "Fit the few numbers of a software family to measured steps.",
    "collective": "Time a collective on a network, size by size, and compare it with a log.",
    "topology": "Count the links of a network, its diameter and its bisection, and draw it.",
    "schedule": "Draw a pipeline schedule, with its bubble and what each stage holds.",
    "import": "Write a scenario from a NeuronX Distributed, Megatron-LM or torchtitan configuration.",
    "schema": "Print the JSON Schema of scenario files, for editors.",
}


class _LazyGroup(click.RichGroup):
    """A group that lists its commands from a table and imports the module of a command when it is invoked."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        return list(_COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in _COMMANDS:
            return name, import_module(f"trnsim.cli.commands.{name}").command, args[1:]
        if not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, _COMMANDS, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(_COMMANDS)}"
            raise click.UsageError(f"no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_LazyGroup,
    commands={name: click.RichCommand(name=name, short_help=text) for name, text in _COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="trnsim")
def _app() -> None:
    """Simulate training on AWS Trainium clusters, from one chip to a million.

    How long does a step take, why, and does it fit? Start with `trnsim list scenarios` and `trnsim run NAME`.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Parameters
    ----------
    arguments
        What follows ``trnsim``; by default what the shell gave.
    """
    gc.disable()  # a command is a short process; collecting costs a tenth of its time and frees nothing to speak of
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would search every package that is installed
    _open_streams()
    sys.exit(_exit_code(arguments))


def _open_streams() -> None:
    """Let no output fail for want of a stream (``>&-``) or of a letter in its encoding."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, io.StringIO())
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _exit_code(arguments: Sequence[str] | None) -> int:
    """Run a command; a user's mistake ends in a sentence, never in a traceback."""
    try:
        outcome: Any = _app.main(arguments, prog_name="trnsim", standalone_mode=False)
    except click.ClickException as error:
        _explain(error)
        return _INPUT
    except TrnsimError as error:
        say(str(error), to_stderr=True)
        return error.exit_code
    except click.Abort:
        say("interrupted", to_stderr=True)
        return _INTERRUPTED
    except SystemExit:  # click's answer to a reader of the help that has gone away
        return 0
    except Exception as error:  # noqa: BLE001  (the outermost frame: whatever gets here is a bug of ours)
        _confess(error)
        return _BUG
    return outcome if isinstance(outcome, int) else 0


def _explain(error: click.ClickException) -> None:
    """Say what is wrong with the command line, and where its help is."""
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "trnsim"
    say(f"{command}: {error.format_message()}\ntry {command} --help", to_stderr=True)


def _confess(error: Exception) -> None:
    say(f"a bug of trnsim, not a mistake of yours: {type(error).__name__}: {error}", to_stderr=True)
    if os.environ.get("TRNSIM_TRACEBACK"):
        say("".join(traceback.format_exception(error)), to_stderr=True)
    else:
        say("set TRNSIM_TRACEBACK=1 to see where it happened, and please report it", to_stderr=True)
