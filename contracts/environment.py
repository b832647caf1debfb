"""The environment of programs that need no credentials: without them.

An environment is readable in /proc/PID/environ by root and the same user, is inherited by all that
a program starts, and ends up in dumps.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_SECRET = re.compile(r"^AWS_|SECRET|TOKEN|PASSW|CREDENTIAL|_KEY$|_PROXY$", re.IGNORECASE)


def without_secrets(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables but those of AWS, and those named as secrets or proxies (with passwords)."""
    return {name: value for name, value in environment.items() if not _SECRET.search(name)}
