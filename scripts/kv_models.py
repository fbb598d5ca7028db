"""Write the table of models into docs/kv.md: `python scripts/kv_models.py [--check]`.

`--check` writes nothing and fails where the table is stale.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from servescope.kv.catalogue import bytes_per_token, catalogue, fixed_bytes
from servescope.kv.sizes import written
from servescope.kv.tables import model_row

PAGE = Path(__file__).resolve().parent.parent / "docs" / "kv.md"
BEGIN = "<!-- models: written by scripts/kv_models.py -->\n"
END = "<!-- end of models -->\n"
COLUMNS = "| model | attention | layers: full + window + state | bytes a token | besides | cache | source |\n"


def models() -> str:
    """The table of models and the list of sources."""
    held = catalogue()
    number = {key: at for at, key in enumerate(held.sources, start=1)}
    lines = [COLUMNS, "|---|---|---|--:|--:|---|---|\n"]
    for model in held.models:
        row = model_row(model)
        window = f" of {row['window_tokens']:,}" if row["window_tokens"] else ""
        layers = f"{row['full_layers']} + {row['window_layers']}{window} + {row['state_layers']}"
        besides = written(fixed_bytes(model)) if row["fixed_bytes"] else "–"
        rate = f"{float(bytes_per_token(model)):,.0f}"
        mark = "" if model.verified else " (not wholly verified)"
        source = f"[{number[model.source]}]{mark}"
        cells = (f"`{model.name}`", model.attention, layers, rate, besides, model.dtype, source)
        lines.append(f"| {' | '.join(cells)} |\n")
    noted = [f"* `{model.name}`: {model.note}\n" for model in held.models if model.note]
    sources = [f"{number[key]}. {text}\n" for key, text in held.sources.items()]
    return "".join([*lines, "\nNotes:\n\n", *noted, "\nSources:\n\n", *sources])


def page(text: str) -> str:
    """The page with the table put between its marks."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{models()}\n{END}{after}"


def main() -> None:
    """Write the table, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    text = PAGE.read_text(encoding="utf-8")
    if not parser.parse_args().check:
        PAGE.write_text(page(text), encoding="utf-8")
    elif page(text) != text:
        sys.exit(f"{PAGE.name} is stale; run `python scripts/kv_models.py` and commit it.")


if __name__ == "__main__":
    main()
