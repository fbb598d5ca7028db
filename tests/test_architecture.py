"""The rules of the house that a machine can check."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import servescope
from servescope import api, formats
from servescope.cli import GROUPS, command_name
from servescope.exports import EXPORTS
from servescope.exports import load as load_export
from servescope.views import VIEWS
from servescope.views import load as load_view

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "servescope"
FILES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted(
    path for name in ("scripts", "benchmarks", "examples") for path in (ROOT / name).glob("*.py")
)
TESTS = sorted((ROOT / "tests").rglob("*.py"))
# Names of index hosts are put together here, since no file may hold one.
INDEX_HOSTS = ("pypi" + ".org", "pythonhosted" + ".org", "ana" + "conda.org")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".html", ".css", ".js", ".yml", ".yaml", ".cfg", ""}


def name_of(path: Path) -> str:
    """A path as a test id."""
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", [*FILES, *SCRIPTS, *TESTS], ids=name_of)
def test_files_are_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= 400, f"{lines} lines"


@pytest.mark.parametrize("path", [*FILES, *SCRIPTS], ids=name_of)
def test_functions_are_short(path: Path) -> None:
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 >= 60
    ]
    assert not long


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_module_says_what_it_owns(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not text or ast.get_docstring(ast.parse(text))


def test_the_public_list_equals_the_public_functions() -> None:
    defined = {
        name
        for name, value in inspect.getmembers(api, inspect.isfunction)
        if value.__module__.startswith(f"{api.__name__}.") and not name.startswith("_")
    }
    assert {*defined, "__version__"} == set(servescope.__all__)
    for name in servescope.__all__:
        assert getattr(servescope, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        servescope.nonsense  # noqa: B018


def test_public_functions_take_one_thing_and_name_the_rest() -> None:
    for name in servescope.__all__:
        value = getattr(servescope, name)
        if callable(value):
            kinds = [parameter.kind for parameter in inspect.signature(value).parameters.values()]
            assert all(
                kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD) for kind in kinds[1:]
            ), name
            assert inspect.getdoc(value), name


@pytest.mark.parametrize("name", formats.FORMATS)
def test_a_format_is_one_file_with_its_name(name: str) -> None:
    loaded = formats.load(name)
    assert loaded.name == name
    assert formats.FORMATS[name] == f"servescope.formats.{name}"
    assert loaded.title and callable(loaded.detect)
    assert (loaded.chunks is None) != (loaded.open is None)
    assert re.search(rf"^\| `{name}` \|", (ROOT / "docs/formats.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_one_file_with_its_name(name: str) -> None:
    loaded = load_export(name)
    assert loaded.name == name
    assert EXPORTS[name] == f"servescope.exports.{name}"
    assert re.search(rf"^\| `{name}` \|", (ROOT / "docs/formats.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_loads_and_makes_its_table(name: str) -> None:
    assert name in load_view(name).tables


def test_tables_of_plug_ins_are_in_order() -> None:
    assert list(formats.FORMATS) == sorted(formats.FORMATS)
    assert list(EXPORTS) == sorted(EXPORTS)


def test_every_command_is_documented_with_an_example() -> None:
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    for command in (command for commands in GROUPS.values() for command in commands):
        section = page.split(f"### {command_name(command)}\n", 1)[1].split("\n##", 1)[0]
        assert f"```sh\nservescope {command_name(command)}" in section
        assert "| option |" in section


def test_command_bodies_are_thin() -> None:
    for path in sorted((PACKAGE / "cli").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name in {
                command.__name__ for commands in GROUPS.values() for command in commands
            }:
                last = node.end_lineno or 0
                assert last - node.body[1].lineno + 1 <= 25, f"{path.name}: {node.name}"


def test_generated_pages_are_fresh() -> None:
    for script in ("command_reference.py", "glossary.py"):
        subprocess.run([sys.executable, ROOT / "scripts" / script, "--check"], check=True)


def committed() -> list[Path]:
    """Text files that git knows, or all of the tree where there is no git."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        return [path for path in [*FILES, *SCRIPTS, *TESTS] if path.is_file()]
    paths = [ROOT / line for line in done.stdout.splitlines()]
    return [path for path in paths if path.suffix in TEXT_SUFFIXES and path.is_file()]


def test_no_file_names_the_host_of_a_package_index() -> None:
    for path in committed():
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not [host for host in INDEX_HOSTS if host in text], name_of(path)


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize(
    "first", ["servescope.views.scan", "servescope.report.page", "servescope.fingerprint"]
)
def test_public_functions_win_over_subpackages_of_the_same_name(first: str) -> None:
    code = (
        f"import {first}, servescope; from servescope import views as v; from types import FunctionType; "
        "print([type(getattr(servescope, n)) is FunctionType for n in ('views', 'report', 'fingerprint')], "
        "v.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[True, True, True] views\n"


def test_the_architecture_page_names_every_folder_and_file_at_the_top() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for path in sorted(PACKAGE.iterdir()):
        if path.suffix == ".py" and path.name != "__init__.py":
            assert f"`{path.name}`" in page, path.name
        elif (path / "__init__.py").exists():
            assert f"`{path.name}/`" in page, path.name
