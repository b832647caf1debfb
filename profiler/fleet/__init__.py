# SPDX-License-Identifier: Apache-2.0
"""Small records of many nodes: written by each node, merged and read in one place."""
