"""Recommendations as text files for the host, deterministic."""
