"""Transfer settings as a section of `~/.aws/config`, which the AWS CLI reads and boto3 does not.

Its keys have other names (AWS CLI's s3 configuration): max_concurrent_requests is max_concurrency;
multipart_threshold, multipart_chunksize and io_chunksize are the same. max_queue_size is
s3transfer's request queue, so max_io_queue has no key, as use_threads has none.
"""

from __future__ import annotations

from sysctl.change.recommendation import RecommendedChange
from sysctl.render.comments import comment
from sysctl.render.snippet import STEM, Format, Snippet
from sysctl.render.transfer import all_settings, opening

NAME = f"{STEM}.aws_config"
_KEYS = (
    ("max_concurrent_requests", "max_concurrency"),
    ("multipart_threshold", "multipart_threshold"),
    ("multipart_chunksize", "multipart_chunksize"),
    ("io_chunksize", "io_chunksize"),
)
_WITHOUT_KEY = ("max_io_queue", "use_threads")


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """The section; nothing without transfer settings."""
    if not change.transfer:
        return ()
    settings = all_settings(change.transfer)
    unmapped = ", ".join(f"{name} ({settings[name]})" for name in _WITHOUT_KEY)
    about = [
        *opening(change, f"append {NAME} to ~/.aws/config, for the AWS CLI alone"),
        f"Without a key there: {unmapped}",
    ]
    lines = [f"  {theirs} = {settings[ours]}" for theirs, ours in _KEYS]
    section = "\n".join(("[default]", "s3 =", *lines, ""))
    return (Snippet(NAME, f"{comment(about)}\n{section}"),)


FORMAT = Format("aws-config", render, (NAME,))
