# SPDX-License-Identifier: Apache-2.0
"""Recommendations as configuration files; the same recommendation always gives the same files."""
