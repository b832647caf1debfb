# SPDX-License-Identifier: Apache-2.0
"""A study that many nodes share: the ledger in PostgreSQL, the results, and a node's work."""
