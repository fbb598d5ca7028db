"""A report from Python: `python examples/report_from_python.py [TRACE] [FOLDER]`.

Without a trace it takes the sample that ships with servescope.
"""

from __future__ import annotations

import sys

import servescope as ss
from servescope.api import SAMPLE


def main(source: str = str(SAMPLE), folder: str = "report-from-python") -> None:
    """Read a trace, look at a few numbers, write the report."""
    trace = ss.read(source)

    facts = ss.info(trace)["facts"].rows()[0]
    print(f"{facts['requests']:,} requests in {facts['span_s']:,.0f} s")

    views = ss.views(trace, view=["type_summary", "reuse_ceiling"])
    for row in views["type_summary"].rows():
        print(f"{row['request_type']}: median input {row['input_p50']:,.0f} tokens")
    ceiling = views["reuse_ceiling"].to_arrow().to_pylist()[0]
    print(f"an unlimited prefix cache would hold {ceiling['token_prefix_reuse_ratio']:.1%} of the input")

    ss.report(trace, out=folder)
    print(f"{folder}/report.html")


if __name__ == "__main__":
    main(*sys.argv[1:3])
