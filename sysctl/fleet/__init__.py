# SPDX-License-Identifier: Apache-2.0
"""A study that many nodes of a class share: what is due, what a node accepts, what it shows."""
