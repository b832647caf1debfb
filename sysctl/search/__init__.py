"""Search strategies: which setting to try next."""
