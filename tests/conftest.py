"""For all tests: Hypothesis sets no deadline, as times on a busy machine mean little."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("writewise", deadline=None)
settings.load_profile("writewise")
