"""For all tests: Hypothesis sets no deadline, as times on a busy machine mean little.

`make test-fast` takes the profile `fast`, with fewer examples of each property than `make test`.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("writewise", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=20)
settings.load_profile("writewise")
