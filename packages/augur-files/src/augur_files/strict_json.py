"""JSON as RFC 8259 has it, from files that may be damaged or hostile.

Python's parser takes more than JSON (NaN, Infinity), turns 1e999 into an infinity, lets the last of
two equal keys win in silence, and builds whatever depth it can. A file that another reader would
understand differently is refused here instead.
"""

import json
import math
from collections import Counter
from typing import Any, NoReturn

_MAX_DEPTH = 64  # a config is nested four deep; repr and others fail on a thousand


class StrictJSONError(ValueError):
    """Text that is not JSON, or JSON that readers do not agree on.

    The message says what the text is or does, as the rest of a sentence that begins with its name.
    """


def parse_json(text: str) -> Any:
    """Parse a whole text.

    Raises:
        StrictJSONError: not JSON, a key that comes twice in one object, NaN or an infinity, a
            number beyond what a float holds or a whole one of thousands of digits, or a value
            nested more than 64 deep.
    """
    if not text.strip():
        raise StrictJSONError("is empty, expected JSON")
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_float
        )
    except json.JSONDecodeError as error:
        raise StrictJSONError(f"is not JSON ({error})") from None
    except RecursionError:
        raise StrictJSONError(f"is nested more than {_MAX_DEPTH} deep") from None
    except StrictJSONError:
        raise
    except ValueError:  # Python's limit on the digits of a whole number
        raise StrictJSONError("holds a number of thousands of digits") from None
    _check_depth(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        times = Counter(key for key, _ in pairs)
        twice = next(key for key in values if times[key] > 1)
        raise StrictJSONError(f'has the key "{twice:.200}" twice')
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise StrictJSONError(f"holds {name}, which is no JSON number")


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise StrictJSONError(f"holds the number {digits:.40}, which is beyond any float")
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_MAX_DEPTH + 1):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return
    raise StrictJSONError(f"is nested more than {_MAX_DEPTH} deep")
