"""The memory of the command line's process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = "from servescope.cli.memory import share_one_heap; share_one_heap(); import pyarrow; "
CODE += "print(pyarrow.default_memory_pool().backend_name)"


@pytest.mark.parametrize(
    ("given", "backend"), [({}, "system"), ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc")]
)
def test_arrow_shares_the_heap_unless_the_user_says_otherwise(given: dict[str, str], backend: str) -> None:
    rest = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=rest | given, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == backend


def test_a_command_looks_for_no_cycles_as_it_ends() -> None:
    code = "import gc, atexit; from servescope.cli import main; "
    code += "atexit.register(lambda: print(gc.get_freeze_count() > 1_000)); "
    code += "main(['--version'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"
