"""Rendering only: results as text for a terminal and as JSON."""
