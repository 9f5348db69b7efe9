"""What a hook tells the compile cache of itself."""

from __future__ import annotations

import secrets
from typing import Any

from optimus.plan import Plan


def identity(plan: Plan, previous: Any) -> str:
    """A text for cache keys, for a hook that runs ``previous`` (or None) and then ``plan``. Where ``previous`` has no ``uuid``, it is
    another at each call, so that nothing is taken from a cache."""
    if previous is None:
        return plan.digest()
    found = previous.uuid() if hasattr(previous, "uuid") else None
    return f"{plan.digest()}:{found or secrets.token_hex(16)}"
