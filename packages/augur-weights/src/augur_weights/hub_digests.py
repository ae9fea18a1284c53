"""The digests that the Hub publishes for the files of a model."""

from huggingface_hub import HfApi, constants

from augur_weights.digests import Digest


def published_digests(repo_id: str, commit: str) -> tuple[dict[str, Digest] | None, str]:
    """Ask for the digest of every file of a commit.

    Returns:
        The digests by the file's path in the repository; or ``None``, and in a few words why.
    """
    if constants.HF_HUB_OFFLINE:
        return None, "HF_HUB_OFFLINE is set"
    try:
        info = HfApi().model_info(repo_id, revision=commit, files_metadata=True)
    except Exception as error:  # whatever the reason, the cache may know the digests
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        return None, f"{type(error).__name__}: {reason:.200}"
    digests = {}
    for file in info.siblings or ():
        value = file.lfs.sha256 if file.lfs is not None else file.blob_id
        if value:
            digests[file.rfilename] = Digest(value)
    return digests, ""
