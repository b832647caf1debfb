# SPDX-License-Identifier: Apache-2.0
"""Configure Hypothesis for all tests: no deadline, because times on a busy machine mean little.

`make test-fast` uses the profile `fast`, with fewer examples per property than `make test`. What
tests do is kept out of the history of the host. The signals that `nohup` and a shell's `&` ignore
have their defaults again, because programs that tests start inherit them.
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

os.environ["WRITEWISE_HISTORY"] = "off"
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("writewise", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=20)
settings.load_profile("writewise")
