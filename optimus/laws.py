"""The laws every rewrite obeys, whatever its pattern says. A broken law declines the rewrite under the law's name."""

from __future__ import annotations

import enum


class Law(enum.Enum):
    """The name is the decline reason; the value says what would have gone wrong."""

    ALIASING = "a fresh value would become a view, or a view a copy, where somebody can tell"
    MUTATION = "a read or a write would cross an in-place operator on the same storage"
    LAYOUT = "an output or a layout-sensitive reader would see other strides"
    AMBIENT_MODE = "nodes of different autocast, grad-mode or inference regions would be joined"
    EFFECTS = "a random or effectful operator would be moved, merged, duplicated or dropped"
    SIZES = "a size would have to be guarded on or specialised"
    TYPES = "shape, dtype, device or requires_grad of a result would change"
    VALID_GRAPH = "the graph would not be well formed, or metadata is missing"

    @property
    def reason(self) -> str:
        """The decline reason, such as ``law:aliasing``."""
        return "law:" + self.name.lower()


ALL_LAWS = frozenset(Law)
