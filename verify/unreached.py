"""Branches of passes that no program takes, and why: the name of the file, then the text of the line they start from.

A line is known by its text and not by its number, so that an entry outlives changes elsewhere and falls when its line changes;
a test says that each is the text of one line. ``benchmarks/branches.py`` fails on a branch that is neither taken nor here.
"""

from __future__ import annotations

from collections.abc import Mapping

UNEQUAL = (
    "pieces of unlike sizes cannot be stacked, nor joined along another dimension: eager raises, and so does the capture. Where sizes are "
    "symbols, the capture guards that they are equal, and equal_sizes knows guards. Left are sizes read from data, of which "
    "the capture only notes that the program will check them: there the rewrite has to be declined, and programs that read sizes from data are not drawn."
)

UNREACHED: Mapping[str, Mapping[str, str]] = {
    "_joins.py": {
        'if cut.op == "split" and (join.op == "stack" or cut.dim != join.dim) and not equal_sizes(cut.sizes[run.first : run.first + run.length]):': UNEQUAL,
    },
    "activation_quantization.py": {
        "if not converts(fake.device, self.format):": (
            "programs run on the CPU, which converts to either format. What says so, optimus.fp8.converts, is tested for a GPU without the format and for "
            "other devices in tests/test_quantization.py."
        ),
    },
    "split_cat.py": {
        'elif (join.op == "stack" or join.dim != cut.dim) and not equal_sizes(cut.sizes[run.first : run.first + run.length]):': UNEQUAL,
    },
}
