# SPDX-License-Identifier: Apache-2.0
"""Compares pull clients: each pulls the same objects, in turns."""
