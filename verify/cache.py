"""What was proved before, kept by content: in memory, and in a folder as one JSON file for each proof.

Only proofs are kept, and only those that a second solver confirmed where there is one; a timeout, a refutation or a doubt
is worked out again. The key of a proof is a digest of everything it depends on, see :mod:`verify.content`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from verify.smtlib import is_recording

FOLDER = "OPTIMUS_CACHE_DIR"
"""Environment variable: the folder; ``none``: nothing is kept on disk."""

V = TypeVar("V")


def default_folder() -> Path | None:
    """Where proofs are kept: ``$OPTIMUS_CACHE_DIR``, else ``optimus-verify`` in the user's folder of caches.

    None where the former says so, or the user has no home.
    """
    given = os.environ.get(FOLDER, "")
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        if given:
            return None if given == "none" else Path(given).expanduser()
        return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "optimus-verify"
    except RuntimeError:
        return None


class Cache:
    """Entries by key. ``hits`` and ``misses`` count what was asked for; what has no key counts as a miss.

    ``tell`` hears once of a folder that cannot be read or written; the cache then works on in memory.
    """

    def __init__(self, folder: Path | None, tell: Callable[[str], None] | None = None) -> None:
        self.folder = folder
        self.hits = 0
        self.misses = 0
        self._tell = tell or _warn
        self._told = False
        self._entries: dict[str, dict[str, Any]] = {}

    def get(self, key: str) -> dict[str, Any] | None:
        """The entry for ``key``. One that is damaged, or belongs to something else, is none."""
        if key not in self._entries and self.folder is not None:
            found = self._read(self._file(self.folder, key), key)
            if found is not None:
                self._entries[key] = found
        return self._entries.get(key)

    def put(self, key: str, entry: Mapping[str, Any]) -> None:
        """Keep an entry of plain data. Others see the whole file or none."""
        self._entries[key] = dict(entry)
        if self.folder is None:
            return
        file = self._file(self.folder, key)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".")
        except OSError as error:
            self._trouble(f"{self.folder} cannot be written ({error.strerror or error}); proofs are not kept there")
            return
        try:
            with os.fdopen(handle, "w") as out:
                json.dump({"key": key, "entry": entry, "sum": _sum(key, entry)}, out)
            Path(temporary).replace(file)
        except OSError as error:
            self._trouble(f"{file} cannot be written ({error.strerror or error}); the proof is not kept there")
        finally:
            Path(temporary).unlink(missing_ok=True)

    def _read(self, file: Path, key: str) -> dict[str, Any] | None:
        try:
            found = json.loads(file.read_text())
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        except OSError as error:
            self._trouble(f"{file} cannot be read ({error.strerror or error})")
            return None
        if not isinstance(found, dict) or found.get("key") != key or not isinstance(found.get("entry"), dict):
            return None
        entry: dict[str, Any] = found["entry"]
        return entry if found.get("sum") == _sum(key, entry) else None

    def _file(self, folder: Path, key: str) -> Path:
        return folder / key[:2] / f"{key[2:]}.json"

    def _trouble(self, what: str) -> None:
        if not self._told:
            self._told = True
            self._tell(f"cache: {what}")

    def __str__(self) -> str:
        asked = self.hits + self.misses
        return f"cache: {self.hits} of {asked} proofs from {self.folder or 'memory'}" if asked else "cache: nothing was asked for"


def shared() -> Cache:
    """The cache of this process for the folder in force, :func:`default_folder`."""
    return _shared(default_folder())


@functools.cache
def _shared(folder: Path | None) -> Cache:
    return Cache(folder)


def _sum(key: str, entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{key}\0{json.dumps(entry, sort_keys=True)}".encode()).hexdigest()


def _warn(what: str) -> None:
    warnings.warn(what, RuntimeWarning, stacklevel=2)


def remembered(
    cache: Cache | None,
    key: Callable[[], str | None],
    compute: Callable[[], V],
    pack: Callable[[V], dict[str, Any] | None],
    unpack: Callable[[dict[str, Any]], V],
) -> V:
    """What ``compute`` returns, or what it returned before for the same key.

    ``pack`` gives plain data, or None for what is not to be kept; ``unpack`` raises ``KeyError``, ``TypeError`` or
    ``ValueError`` for data it cannot have given. While queries are recorded, all are asked again.
    """
    known = None if cache is None else key()
    if cache is not None and known is not None and not is_recording():
        entry = cache.get(known)
        with contextlib.suppress(KeyError, TypeError, ValueError):
            if entry is not None:
                found = unpack(entry)
                cache.hits += 1
                return found
    made = compute()
    if cache is not None:
        cache.misses += 1
        entry = None if known is None else pack(made)
        if known is not None and entry is not None:
            cache.put(known, entry)
    return made
