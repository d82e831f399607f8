"""The resident memory of this process and its peak since the last reset."""

from __future__ import annotations

import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


def resident() -> int:
    """The resident memory in bytes; 0 if unknown."""
    return _field("VmRSS") if _STATUS.exists() else _most_ever()


def forget_peak() -> None:
    """Reset the peak, if the system supports it (Linux)."""
    try:
        _RESET.write_text("5")  # man 5 proc: resets the peak resident set size
    except OSError:
        return


def peak() -> int:
    """The peak resident memory since `forget_peak`, or since process start; 0 if unknown."""
    return _field("VmHWM") if _STATUS.exists() else _most_ever()


def _field(name: str) -> int:
    for line in _STATUS.read_text("ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _most_ever() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
