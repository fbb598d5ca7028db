"""The command line: one file per command group, and the one place that turns errors into exit codes."""

from __future__ import annotations

import errno
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servescope.cli import cache, check_policy, compose, inspect, kv, sessions, store
from servescope.cli.memory import leave_at_end, share_one_heap
from servescope.errors import ServescopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

INTERRUPTED = 130
STOPPED = (signal.SIGINT, signal.SIGTERM)
WRONG_PLACE = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS,
    errno.ENAMETOOLONG, errno.ENOTEMPTY,
)  # fmt: skip

app = typer.Typer(
    name="servescope",
    help="Read any LLM-serving request trace and say what the traffic is like.",
    rich_markup_mode=None,  # plain help: three times faster, and fit for a pipe
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
GROUPS: dict[str, tuple[Callable[..., None], ...]] = {
    "Study a trace": (*compose.COMMANDS, *sessions.COMMANDS, *cache.COMMANDS),
    "Look at a trace": inspect.COMMANDS,
    "Write a trace": store.COMMANDS,
    "Test a policy": check_policy.COMMANDS,
    "Size a memory": kv.COMMANDS,
}


def command_name(command: Callable[..., None]) -> str:
    """How a command function is called on the command line."""
    return command.__name__.replace("_", "-")


for _commands in GROUPS.values():
    for _command in _commands:
        app.command(command_name(_command))(_command)


@app.callback(invoke_without_command=True)
def _common(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")
    ] = False,
) -> None:
    if version:
        from servescope import __version__

        typer.echo(f"servescope {__version__}")
        raise typer.Exit
    context.obj["debug"] = debug


class _Stopped(BaseException):
    """A signal asked for the end; a BaseException, so that no handler of errors swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def _stop(number: int, frame: FrameType | None) -> None:
    for other in STOPPED:  # a second signal must not cut short the removal of temporary files
        signal.signal(other, signal.SIG_IGN)
    raise _Stopped(number)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; every error ends here, as one message on stderr."""
    for number in STOPPED:
        signal.signal(number, _stop)
    share_one_heap()
    settings: dict[str, Any] = {"debug": False}
    code = run(sys.argv[1:] if arguments is None else list(arguments), settings)
    for number in STOPPED:  # done: a late signal must not turn a finished run into an interrupted one
        signal.signal(number, signal.SIG_IGN)
    leave_at_end()
    sys.exit(code)


def run(arguments: list[str], settings: dict[str, Any]) -> int:
    """Exit code of the command line `arguments`; a message for every error goes to stderr."""
    try:
        # not `app(…)`: it would end the process by itself on a closed pipe and on Ctrl-C
        command = typer.main.get_command(app)
        with command.make_context("servescope", arguments, obj=settings) as context:
            command.invoke(context)
        sys.stdout.flush()
        return 0
    except typer.Exit as done:
        return done.exit_code
    except _Stopped as stop:
        return _say("interrupted; nothing unfinished was left.", 128 + stop.number)
    except ServescopeError as error:
        return _say(str(error), error.exit_code)
    except typer.TyperException as error:  # wrong usage: prints the usage line and the reason
        return _wrong_usage(error)
    except BrokenPipeError:
        # the reader went away; keep the interpreter from flushing into the closed pipe at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _say(f"{place}{error.strerror or error}.", 2 if error.errno in WRONG_PLACE else 3)
    except Exception as error:
        return _unexpected(error, settings["debug"])


def _say(message: str, code: int) -> int:
    typer.echo(f"servescope: {message}", err=True)
    return code


def _wrong_usage(error: Any) -> int:
    error.show()
    return int(error.exit_code)


def _unexpected(error: Exception, debug: bool) -> int:
    if debug:
        raise error
    kind = type(error).__name__
    return _say(
        f"unexpected {kind}: {_first_line(error)}. This is a defect of servescope; "
        "`servescope --debug COMMAND …` shows where.",
        1,
    )


def _first_line(error: Exception) -> str:
    lines: Iterator[str] = iter(str(error).splitlines())
    return next(lines, "no message")[:200]
