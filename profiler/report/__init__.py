# SPDX-License-Identifier: Apache-2.0
"""Rendering only: results as text for a terminal, and as JSON."""
