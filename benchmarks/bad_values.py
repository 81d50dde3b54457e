"""Compare slgh with five other optimizers in bad situations, for docs/reliability.md.

    python benchmarks/bad_values.py                              run all cells, write the record and the page
    python benchmarks/bad_values.py --libraries slgh             run one column; the others stay as recorded
    python benchmarks/bad_values.py --rows ctrl_c,nan_region     run some rows
    python benchmarks/bad_values.py --rows ctrl_c --print        print only, and change no file
    python benchmarks/bad_values.py page                         write the page from the record

`benchmarks/bad_values_study/rows.py` lists the rows, `libraries.py` beside it calls the libraries, and `cases.py` runs
and judges the cases. Each cell runs in its own process with a time limit. The record is `benchmarks/bad_values.json`.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bad_values_study.libraries import LIBRARIES
from bad_values_study.page import rewrite
from bad_values_study.rows import ROWS
from bad_values_study.running import LIMIT, call_child, cell, run_cell

RECORD = Path(__file__).resolve().with_suffix(".json")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "reliability.md"


def run(rows: Sequence[str], libraries: Sequence[str], *, jobs: int, limit: float) -> dict[str, dict[str, Any]]:
    """Run the cells, print them, and return the outcomes by row and library."""
    cells = [(row, name) for row in rows for name in libraries]
    found: dict[str, dict[str, Any]] = {row: {} for row in rows}
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = pool.map(lambda each: run_cell(*each, limit), cells)
        for (row, name), outcome in zip(cells, outcomes, strict=True):
            print(f"{row:22} {name:10} {outcome.verdict:12} {outcome.note}", flush=True)
            found[row][name] = outcome._asdict()
    return found


def versions() -> dict[str, str]:
    """Return the versions that the outcomes belong to."""
    packages = dict.fromkeys(["numpy", *(library.package for library in LIBRARIES.values())])
    return {"Python": platform.python_version(), **{name: version(name) for name in packages}}


def read_record() -> dict[str, Any]:
    """Return the recorded outcomes."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {"versions": {}, "rows": {}}


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line."""
    words = sys.argv[1:] if words is None else list(words)
    # Internal commands that start the processes of a cell.
    if words[:1] == ["cell"]:
        cell(words[1], words[2], Path(words[3]), Path(words[4]))
    if words[:1] == ["child"]:
        call_child(words[1], words[2], Path(words[3]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=["run", "page"], default="run")
    parser.add_argument("--rows", default=",".join(row.name for row in ROWS), help="Rows. Default: all.")
    parser.add_argument("--libraries", default=",".join(LIBRARIES), help="Libraries. Default: all.")
    parser.add_argument(
        "--jobs", type=int, default=2, help="Number of concurrent cells. A cell that hangs uses no core."
    )
    parser.add_argument("--limit", type=float, default=LIMIT, help="Seconds per cell.")
    parser.add_argument("--print", action="store_true", help="Print only, and change no file.")
    options = parser.parse_args(words)
    record = read_record()
    if options.command == "run":
        libraries = options.libraries.split(",")
        for name in libraries:
            if find_spec(LIBRARIES[name].package) is None:
                raise SystemExit(f'{name} is missing. Run pip install -c constraints.txt -e ".[bench]"')
        found = run(options.rows.split(","), libraries, jobs=options.jobs, limit=options.limit)
        if options.print:
            return 0
        for row, outcomes in found.items():
            record["rows"].setdefault(row, {}).update(outcomes)
        record["versions"] = versions()
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    rewrite(PAGE, record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
