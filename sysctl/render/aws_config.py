# SPDX-License-Identifier: Apache-2.0
"""Transfer settings as commands that write the `s3` section of `~/.aws/config`.

The AWS CLI reads that section, boto3 does not. Its key for max_concurrency is
max_concurrent_requests; multipart_threshold, multipart_chunksize and io_chunksize have the same
names ("AWS CLI S3 Configuration"). max_io_queue and use_threads have no key: max_queue_size is
s3transfer's request queue. `aws configure set` keeps the rest of the file; a second section of the
same name would make it invalid.
"""

from __future__ import annotations

from sysctl.change.recommendation import RecommendedChange
from sysctl.knobs.transfer import TRANSFER_KNOBS
from sysctl.render.comments import comment
from sysctl.render.snippet import STEM, Format, Snippet
from sysctl.render.transfer import all_settings, opening

NAME = f"{STEM}.aws_config.sh"
_KEYS = {
    "max_concurrency": "max_concurrent_requests",
    "multipart_threshold": "multipart_threshold",
    "multipart_chunksize": "multipart_chunksize",
    "io_chunksize": "io_chunksize",
}


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return the commands; nothing without transfer settings."""
    if not change.transfer:
        return ()
    settings = all_settings(change.transfer)
    without = [knob for knob in TRANSFER_KNOBS if knob.name not in _KEYS]
    unmapped = ", ".join(f"{knob.name}={knob.text(settings[knob.name])}" for knob in without)
    about = [
        *opening(change, f"sh {NAME}, as the user who runs the AWS CLI"),
        f"The AWS CLI has no key for {unmapped}.",
    ]
    lines = [f"aws configure set default.s3.{key} {settings[n]}\n" for n, key in _KEYS.items()]
    return (Snippet(NAME, f"{comment(about)}\n{''.join(lines)}"),)


FORMAT = Format("aws-config", render, (NAME,))
