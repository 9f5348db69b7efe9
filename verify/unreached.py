"""Branches of passes that no program takes, and why: the name of the file, then the text of the line they start from.

A line is known by its text and not by its number, so that an entry outlives changes elsewhere and falls when its line changes;
a test says that each is the text of one line. ``benchmarks/branches.py`` fails on a branch that is neither taken nor here.
"""

from __future__ import annotations

from collections.abc import Mapping

UNREACHED: Mapping[str, Mapping[str, str]] = {
    "activation_quantization.py": {
        "if not converts(fake.device, self.format):": (
            "programs run on the CPU, which converts to either format. What says so, optimus.fp8.converts, is tested for a GPU without the format and for "
            "other devices in tests/test_quantization.py."
        ),
    },
}
