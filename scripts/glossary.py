"""Write docs/glossary.md from `servescope.metrics`: `python scripts/glossary.py [--check]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from servescope.metrics import METRICS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "glossary.md"
HEAD = """# Glossary

This page is generated: `make docs` writes it, `make check` fails where it is stale. Each word has one meaning
here, also where other tools use it differently.

| word | unit | meaning |
|---|---|---|
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(f"| {m.name} | {m.unit or '–'} | {m.definition} |\n" for m in METRICS)


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        sys.exit(f"{PAGE.name} is stale; run `make docs` and commit it.")


if __name__ == "__main__":
    main()
