# SPDX-License-Identifier: Apache-2.0
"""A plan as files for the programs that configure nodes: one module an engine."""
