"""The clock of every peer here: from the first job to the last, and the one line that xtask reads."""

import json
import os
import sys
import time
from importlib.metadata import version

URL = os.environ["DATABASE_URL"]
JOBS = int(sys.argv[1])
PAYLOAD = {"text": "x" * 180}

_begin = None
_end = None
_done = 0


def handled(count: int = 1) -> bool:
    """Counts jobs as they are handled; true once all are. The first call starts the clock, also with none."""
    global _begin, _end, _done
    if _begin is None:
        _begin = time.perf_counter()
    _done += count
    if _done >= JOBS and _end is None:
        _end = time.perf_counter()
    return _done >= JOBS


def report(package: str) -> None:
    seconds = _end - _begin
    print(json.dumps({"jobs": _done, "seconds": seconds, "version": version(package)}), flush=True)
