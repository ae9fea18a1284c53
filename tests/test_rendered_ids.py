"""Ids of a chat are found in whatever type a release of transformers returns them."""

import pytest
from transformers import BatchEncoding

from referee import rendered_ids


@pytest.mark.parametrize(
    "rendered",
    [
        [1, 2, 3],
        [[1, 2, 3]],
        {"input_ids": [1, 2, 3]},
        BatchEncoding({"input_ids": [[1, 2, 3]], "attention_mask": [[1, 1, 1]]}),
    ],
    ids=["list", "batch of lists", "mapping", "batch encoding"],
)
def test_any_type_gives_the_list_of_ids(rendered: object) -> None:
    assert rendered_ids(rendered) == [1, 2, 3]
