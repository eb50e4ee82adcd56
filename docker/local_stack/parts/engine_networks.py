"""What a killed engine leaves in the store of its networks."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

_STORE = Path("network", "files", "local-kv.db")
_PATIENCE_SECONDS, _POLL_SECONDS = 5.0, 0.02
_FAMILIES = ("V4", "V6")

# The format of the store [go.etcd.io/bbolt: page.go, bucket.go]; all numbers have the low byte first.
_MAGIC = 0xED0CDAED
_HEADER, _ELEMENT, _BUCKET = 16, 16, 16
_IS_BRANCH, _IS_BUCKET = 1, 1
_NETWORK = b"docker/network/v1.0/network/"
#: Before each value libkv writes its index.
_INDEX = 8


def finish_removals(data_root: Path) -> list[str]:
    """
    Let an engine start that was killed while it removed networks; return the names of these.

    An engine gives a network's addresses back before it removes its record. If it is killed in between, it
    looks for those addresses at each start, and ends with ``index out of range`` in libnetwork's
    ``reservePools`` (seen with 20.10.24). In a record that asks for no addresses it does not look for them,
    and removes the network. So the keys that ask are renamed in their places; other records stay as they are.

    :param data_root: of an engine that does not run. To one that runs, and to a store that cannot be read,
        nothing is done.
    """
    try:
        with (data_root / _STORE).open("r+b") as store:
            _lock(store.fileno())
            content = store.read()
            names = []
            for begin, end in _networks(content):
                network = json.loads(content[begin:end])
                asked = [family for family in _FAMILIES if f"ipam{family}Config" in network]
                if network.get("inDelete") and any(f"ipam{family}Info" not in network for family in asked):
                    for family in asked:
                        place = content.index(f'"ipam{family}Config"'.encode(), begin, end)
                        os.pwrite(store.fileno(), b'"-', place)
                    names.append(network["name"])
            return names
    except (FileNotFoundError, TimeoutError, struct.error, ValueError):
        return []  # the engine says what is wrong with its store


def _lock(store: int) -> None:
    """Take the engine's own lock; it may have it for a moment at each of its starts."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return fcntl.flock(store, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError from None
            time.sleep(_POLL_SECONDS)


def _networks(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the record of each network begins and ends; removed ones are left out."""
    (page_size,) = struct.unpack_from("<I", content, _HEADER + 8)

    def below(page: int) -> Iterator[tuple[int, int]]:
        flags, count = struct.unpack_from("<HH", content, page + 8)
        for place in range(page + _HEADER, page + _HEADER + count * _ELEMENT, _ELEMENT):
            if flags & _IS_BRANCH:
                (child,) = struct.unpack_from("<Q", content, place + 8)
                yield from below(child * page_size)
                continue
            kind, offset, key_size, value_size = struct.unpack_from("<4I", content, place)
            key, value = place + offset, place + offset + key_size
            if kind & _IS_BUCKET:
                (root,) = struct.unpack_from("<Q", content, value)
                yield from below(root * page_size if root else value + _BUCKET)
            elif content.startswith(_NETWORK, key):
                yield value + _INDEX, value + value_size

    # Of the first two pages, that of the last transaction counts.
    metas = [struct.unpack_from("<I12xQ24xQ", content, page + _HEADER) for page in (0, page_size)]
    _, root, _ = max((meta for meta in metas if meta[0] == _MAGIC), key=lambda meta: meta[2])
    yield from below(root * page_size)
