"""Put on a program's path by a test: says when the first token is made, then takes its time."""

import sys
import time

import augur_gen.generate

_next = augur_gen.generate.Generation.__next__


def _slow_next(self: augur_gen.generate.Generation) -> int:
    token_id = _next(self)
    if len(self.result().token_ids) == 1:
        sys.stderr.write("first token\n")
        sys.stderr.flush()
    time.sleep(0.2)
    return token_id


augur_gen.generate.Generation.__next__ = _slow_next
