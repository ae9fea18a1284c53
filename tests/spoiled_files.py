"""Ways to spoil a valid file, for hypothesis to choose from."""

import copy
import json
import struct
from typing import Any

from hypothesis import strategies as st

# Numbers at which a reader's arithmetic may go wrong.
NUMBERS = [0, 1, 2, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63]
NUMBERS += [2**64 - 1, 10**30, 10**400, -1, -(2**63)]

_numbers = st.sampled_from(NUMBERS)

weird_values: st.SearchStrategy[Any] = st.one_of(
    _numbers,
    st.sampled_from([0.0, -0.0, 0.5, 1e-300, 1e300, 1e308, float("nan"), float("inf")]),
    st.floats(),
    st.integers(),
    st.booleans(),
    st.none(),
    st.text(max_size=20),
    st.sampled_from(["\x1b[2J", "\n", "\ud800", "../up", "/etc/passwd", "x" * 10_000, "yarn"]),
    st.lists(_numbers, max_size=4),
    st.dictionaries(st.text(max_size=5), _numbers, max_size=3),
    st.sampled_from([[[[[]]]], {"a": {"a": {}}}, [None], [{}]]),
)


@st.composite
def spoiled_bytes(draw: st.DrawFn, valid: bytes, head: int | None = None) -> bytes:
    """Valid bytes after one to four changes, most of them within the first `head` bytes."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        near = min(len(data), head) if head is not None and draw(st.integers(0, 3)) else len(data)
        at = draw(st.integers(0, max(near - 1, 0)))
        match draw(st.integers(0, 6)):
            case 0 if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                del data[at:]
            case 2:
                data[at:at] = draw(st.binary(min_size=1, max_size=40))
            case 3:
                del data[at : at + draw(st.integers(1, 40))]
            case 4:
                piece = data[at : at + draw(st.integers(1, 200))]
                to = draw(st.integers(0, len(data)))
                data[to:to] = piece
            case 5:
                number = draw(_numbers) % 2**64
                data[at : at + 8] = struct.pack("<Q", number)
            case 6:
                data[at : at + 4] = struct.pack("<I", draw(_numbers) % 2**32)
    return bytes(data)


@st.composite
def spoiled_json(draw: st.DrawFn, valid: Any) -> Any:
    """A JSON value after one to three of its places were changed, dropped, renamed or added to."""
    value = copy.deepcopy(valid)
    # Copies, because what was put in may be changed in its turn.
    weird = weird_values.map(copy.deepcopy)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(value))
        if not places:
            return draw(weird)
        container, key = draw(st.sampled_from(places))
        match draw(st.integers(0, 7)):
            case 0:
                del container[key]
            case 1 if isinstance(container, dict):
                container[draw(st.text(max_size=10))] = container.pop(key)
            case 2 if isinstance(container, dict):
                container[draw(st.text(max_size=10))] = draw(weird)
            case 3 if len(places) > 1:
                other, other_key = draw(st.sampled_from(places))
                container[key] = copy.deepcopy(other[other_key])
            case _:
                container[key] = draw(weird)
    return value


def spoiled_text(valid: Any) -> st.SearchStrategy[bytes]:
    """A JSON file: spoiled as a value, spoiled as bytes, or any bytes at all."""
    whole = json.dumps(valid).encode()
    return st.one_of(
        spoiled_json(valid).map(lambda value: json.dumps(value).encode()),
        spoiled_json(valid).map(lambda value: json.dumps(value).encode()),
        spoiled_bytes(whole),
        st.binary(max_size=200),
    )


def _places(value: Any) -> Any:
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    else:
        return
    for key, child in children:
        yield value, key
        yield from _places(child)
