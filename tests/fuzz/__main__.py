"""Run the harness: `python tests/fuzz --seed 0 --minutes 60 --jobs 2`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from fuzz.runner import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
