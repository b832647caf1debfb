# SPDX-License-Identifier: Apache-2.0
"""Observes the host and its processes during a run, and finds why writes took their time."""
