"""Which attention path, unless the user says."""

from typing import Literal

import torch

from augur.errors import OptionError
from augur_model import OPS_BY_ATTENTION

AttentionName = Literal["eager", "eager-f32", "sdpa"]


def choose_attention(name: AttentionName | None, dtype: torch.dtype) -> AttentionName:
    """The path of that name; without one, the reference that is finite in this dtype.

    Raises:
        OptionError: there is no such path.
    """
    if name is None:
        return "eager-f32" if dtype == torch.float16 else "eager"
    if name not in OPS_BY_ATTENTION:
        raise OptionError(
            "{attention} is %r, expected one of %s", name, ", ".join(OPS_BY_ATTENTION)
        )
    return name
