"""From a checkpoint's tensors to a module's parameters, strict both ways."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from augur_weights.checkpoint import Checkpoint
from augur_weights.errors import CheckpointError, WeightsError
from augur_weights.foreign_names import foreign_faults
from augur_weights.layout import listed
from augur_weights.non_finite import all_finite, unravelled

# What a weight may be stored in and converted to. The eight-bit floats are left out: they mean
# little without scales, which no parameter here has.
_FLOAT_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

# Most of the time goes into the first touch of new memory, which several threads share well.
_MAX_WORKERS = 4


@dataclass(frozen=True)
class _Group:
    """One parameter or buffer under all its names: tied weights have more than one."""

    names: tuple[str, ...]
    value: torch.Tensor


def load_into(
    module: torch.nn.Module,
    checkpoint: Checkpoint,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
) -> None:
    """Fill a module that was built on the meta device from a checkpoint.

    The module's parameters and the checkpoint's tensors must match one to one, by name and shape.
    A parameter that the module holds under several names (tied embeddings) needs one of them in
    the checkpoint, stays tied, and where the checkpoint has several they must be equal bit for bit.
    Buffers are the module's own affair: they must be real, and are moved to ``device`` as they are.

    Each tensor is read once, piece by piece, and converted on the way, so that the peak is the
    parameters' size and some MB, and the files are not needed afterwards. Up to four are read at a
    time, on threads that end with the call. The parameters come out with ``requires_grad=False``.

    Args:
        module: the module; its parameters' dtype and device do not matter.
        checkpoint: where the tensors come from.
        dtype: the dtype of the filled parameters, one of float64, float32, float16 and bfloat16;
            ``None`` keeps the dtype that each tensor is stored in.
        device: where the parameters and buffers go.

    Raises:
        CheckpointError: a parameter would stay empty, a tensor is left over, a shape or dtype is
            not what it must be, two tensors of one tied parameter differ, ``dtype`` cannot hold a
            value, or a file cannot be read or was changed. The module is then as it was.
        WeightsError: ``dtype`` is none of the four, or one of the module's buffers is on the meta
            device.
    """
    if dtype is not None and dtype not in _FLOAT_DTYPES:
        raise WeightsError(f"dtype is {dtype}, expected None or one of {listed(_FLOAT_DTYPES)}.")
    parameters = _fitting(module, checkpoint)
    buffers = _groups(module.named_buffers(remove_duplicate=False))
    if empty := [group.names[0] for group in buffers if group.value.is_meta]:
        raise WeightsError(
            f"{len(empty)} buffers of the module are on the meta device and no checkpoint fills "
            f"them: {listed(empty)}. Build them on a real device."
        )

    # Nothing is put into the module before everything has been read, so that an error on the way
    # leaves no half-filled module behind. On a meta-built module this costs no memory.
    with ThreadPoolExecutor(min(_MAX_WORKERS, torch.get_num_threads())) as pool:
        filled = list(pool.map(lambda g: _read(g, checkpoint, dtype, device), parameters))
    for group, tensor in zip(parameters, filled, strict=True):
        _put(module, group.names, torch.nn.Parameter(tensor, requires_grad=False))
    for group in buffers:
        _put(module, group.names, group.value.to(device))


def check_fit(
    module: torch.nn.Module, checkpoint: Checkpoint, *, compare_tied: bool = False
) -> None:
    """Check that ``load_into`` could fill a module: names, shapes and dtypes.

    With ``compare_tied``, tensors that the module ties and the checkpoint holds apart are read and
    compared, too; else none is read.

    Raises:
        CheckpointError: as ``load_into``.
    """
    for group in _fitting(module, checkpoint):
        if compare_tied and len(_stored_names(group, checkpoint)) > 1:
            for _ in _pieces(group, checkpoint):
                pass  # they are compared on the way


def _fitting(module: torch.nn.Module, checkpoint: Checkpoint) -> list[_Group]:
    """The module's parameters, after they were found to fit the checkpoint's tensors."""
    parameters = _groups(module.named_parameters(remove_duplicate=False))
    _check_names(parameters, checkpoint)
    for group in parameters:
        _check_shapes_and_dtypes(group, checkpoint)
    return parameters


def _groups(named: Iterable[tuple[str, torch.Tensor]]) -> list[_Group]:
    names: dict[int, list[str]] = {}
    values: dict[int, torch.Tensor] = {}
    for name, value in named:
        names.setdefault(id(value), []).append(name)
        values[id(value)] = value
    return [_Group(tuple(names[key]), values[key]) for key in names]


def _check_names(parameters: list[_Group], checkpoint: Checkpoint) -> None:
    stored = set(checkpoint.names)
    missing = [" or ".join(group.names) for group in parameters if stored.isdisjoint(group.names)]
    left_over = sorted(stored.difference(*(group.names for group in parameters)))
    faults = []
    if missing:
        faults.append(f"{len(missing)} parameters of the model are not in it: {listed(missing)}")
    if left_over:
        faults.append(
            f"{len(left_over)} of its tensors have no place in the model: {listed(left_over)}"
        )
    faults += foreign_faults(left_over, {name for group in parameters for name in group.names})
    if faults:
        raise CheckpointError(
            f"{checkpoint.folder}: the checkpoint does not fit the model. {'; '.join(faults)}. "
            "Nothing was loaded. Check that the checkpoint is whole and that its config.json "
            "describes this model."
        )


def _check_shapes_and_dtypes(group: _Group, checkpoint: Checkpoint) -> None:
    for name in _stored_names(group, checkpoint):
        found, expected = checkpoint.shape(name), tuple(group.value.shape)
        if found != expected:
            raise CheckpointError(
                f'{checkpoint.file(name)}: tensor "{name}" has shape {list(found)}, the model '
                f"expects {list(expected)}. Nothing was loaded. config.json and the weights do not "
                "belong together; fetch both again."
            )
        if checkpoint.dtype(name) not in _FLOAT_DTYPES:
            raise CheckpointError(
                f'{checkpoint.file(name)}: tensor "{name}" has dtype {checkpoint.dtype(name)}, '
                f"expected one of {listed(_FLOAT_DTYPES)}. Nothing was loaded. Quantised weights "
                "are not supported; use the model's unquantised checkpoint."
            )


def _read(
    group: _Group, checkpoint: Checkpoint, dtype: torch.dtype | None, device: torch.device | str
) -> torch.Tensor:
    name = _stored_names(group, checkpoint)[0]
    stored = checkpoint.dtype(name)
    filled = torch.empty(group.value.shape, dtype=dtype or stored, device=device)
    is_narrower = torch.finfo(filled.dtype).max < torch.finfo(stored).max
    done = 0
    for piece in _pieces(group, checkpoint):
        part = filled.view(-1)[done : done + len(piece)].copy_(piece)
        if is_narrower and not all_finite(part):
            _refuse_overflow(name, done, piece, part, checkpoint)
        done += len(piece)
    return filled


def _pieces(group: _Group, checkpoint: Checkpoint) -> Iterator[torch.Tensor]:
    """The values of a parameter, piece by piece; where it is stored twice, both are equal."""
    first, *others = _stored_names(group, checkpoint)
    other_pieces = [checkpoint.pieces(name) for name in others]
    for piece, *copies in zip(checkpoint.pieces(first), *other_pieces, strict=True):
        for other, copy in zip(others, copies, strict=True):
            if not _same_bits(piece, copy):
                raise CheckpointError(
                    f'{checkpoint.folder}: tensors "{first}" and "{other}" differ, but the model '
                    "ties them: they are one parameter. Nothing was loaded. Check "
                    "tie_word_embeddings in config.json, or fetch the checkpoint again."
                )
        yield piece


def _refuse_overflow(
    name: str, start: int, piece: torch.Tensor, converted: torch.Tensor, checkpoint: Checkpoint
) -> None:
    # What the file holds as NaN or infinity is no fault of the dtype.
    beyond = torch.isfinite(piece) & ~torch.isfinite(converted).to(piece.device)
    if beyond.any():
        place = int(beyond.to(torch.uint8).argmax())
        index = unravelled(start + place, checkpoint.shape(name))
        raise CheckpointError(
            f'{checkpoint.file(name)}: tensor "{name}" has the value {float(piece[place]):g} at '
            f"{list(index)}, and {converted.dtype} holds at most "
            f"{torch.finfo(converted.dtype).max:g}. Nothing was loaded. Load the checkpoint in "
            f"another dtype; it is stored in {piece.dtype}."
        )


def _stored_names(group: _Group, checkpoint: Checkpoint) -> list[str]:
    return [name for name in group.names if name in checkpoint]


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    # As bytes, because NaN is not equal to itself and 0.0 is equal to -0.0.
    return one.dtype == other.dtype and torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def _put(module: torch.nn.Module, names: tuple[str, ...], value: torch.Tensor) -> None:
    for name in names:
        owner, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(owner), leaf, value)
