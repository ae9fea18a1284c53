"""What to tell a person when a Hub model cannot be fetched: what is wrong, and what to do."""

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from huggingface_hub import HfApi, constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from augur_weights.disk_errors import disk_reason, is_disk_error
from augur_weights.layout import CONFIG_NAME, EXPECTED, INDEX_NAME, WEIGHTS_NAME, listed, what_else

NOT_A_NAME = (
    "is no folder here and cannot be the name of a Hub model. Expected a folder, a .gguf file, or "
    "org/name with an optional @revision."
)
_LOG_IN = "log in with `hf auth login` (or set HF_TOKEN)"
_TOO_MANY_REQUESTS = 429
_CONNECT = (
    "Check the network, set HF_ENDPOINT to a mirror, or give the path of a folder. Run again to go "
    "on with the files that are already there."
)


def what_the_hub_answered(repo_id: str, error: HfHubHTTPError) -> str:
    """Say what an answer means that is not the file asked for."""
    hub = constants.ENDPOINT
    if isinstance(error, GatedRepoError):
        return f"access is restricted. Ask for it at {hub}/{repo_id}, then {_LOG_IN}."
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"there is no such repository at {hub}, or it is private, and there is no such folder "
            f"here. Check the spelling; if it is private, {_LOG_IN}."
        )
    if isinstance(error, RevisionNotFoundError):
        return (
            "the repository has no such revision. Expected a branch, a tag or a whole commit "
            f"hash; they are listed at {hub}/{repo_id}."
        )
    return _what_the_status_means(error, hub)


def _what_the_status_means(error: HfHubHTTPError, hub: str) -> str:
    status = error.response.status_code
    said = f" ({error.server_message})" if error.server_message else ""
    file = _file_asked_for(str(error.response.url))
    what = f'"{file}" did not arrive: ' if file else ""
    if status in (401, 403):
        return f"{what}{hub} refused access with status {status}{said}. Renew the token: {_LOG_IN}."
    if status == _TOO_MANY_REQUESTS:
        return (
            f"{what}{hub} answered with status {status}{said}: too many requests. Wait some "
            f"minutes, or {_LOG_IN}: those who are known may ask more often."
        )
    if file:
        answered = f"{what}{error.response.url.host} answered with status {status}{said}"
        return f"{answered}. Run again later: the files that have arrived stay."
    return f"{hub} answered with status {status}{said}. Try again later, or set HF_ENDPOINT."


def _file_asked_for(url: str) -> str | None:
    """The name of the file that a request was for; None where it was about the repository."""
    place, _, query = unquote(url).partition("?")
    # A server of large files knows them by their digests. The Hub tells it under which name a
    # browser is to save the file.
    named = re.search(r"/resolve/[^/]+/(.+)$", place) or re.search(r'filename="([^"]+)"', query)
    if named:
        return named[1]
    last = place.rpartition("/")[2]
    return last if last.endswith((".json", ".safetensors", ".txt", ".jinja")) else None


def why_not_reached(cache: Path, error: Exception, lacking: str) -> str:
    """Say why the Hub did not give the files (``error``), nor the cache (``lacking``)."""
    if isinstance(error, OSError) and is_disk_error(error):
        return f"it cannot be stored in {cache}: {disk_reason(cache, error, 'HF_HOME')}."
    if constants.HF_HUB_OFFLINE:
        return f"HF_HUB_OFFLINE is set, and {lacking}. Unset it to download, or name a folder."
    cause = (error.__cause__ or error) if isinstance(error, LocalEntryNotFoundError) else error
    reason = (str(cause).strip().splitlines() or ["no reason given"])[0]
    return (
        f"{constants.ENDPOINT} could not be reached ({type(cause).__name__}: {reason}), and "
        f"{lacking}. {_CONNECT}"
    )


def what_the_cache_lacks(cache: Path, error: OSError) -> str:
    """Say what is missing from the cache, as far as huggingface_hub tells."""
    if snapshot := getattr(error, "snapshot_path", None):
        return f"the copy in {snapshot} is not whole ({error})"
    return f"the cache ({cache}) holds no copy"


def why_not_whole(repo_id: str, snapshot: Path, missing: Sequence[str]) -> str:
    """Say why files that a checkpoint needs are not in a snapshot."""
    needed = listed(missing)
    try:
        siblings = HfApi().model_info(repo_id, revision=snapshot.name).siblings or []
    except Exception:  # asked only to say more
        return (
            f"{needed} missing from the copy in the cache, {snapshot}, and {constants.ENDPOINT} "
            f"could not be reached to fetch it. {_CONNECT}"
        )
    names = [sibling.rfilename for sibling in siblings]
    if set(missing) <= set(names):
        return f"{needed} did not arrive. {_CONNECT}"
    if missing[0] not in (CONFIG_NAME, WEIGHTS_NAME):
        return (
            f"the repository has no {needed}, which its {INDEX_NAME} names. Choose another "
            "revision with @revision, or tell the repository's owner."
        )
    return f"the repository has no {needed}. {EXPECTED} {what_else(names)}"
