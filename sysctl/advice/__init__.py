# SPDX-License-Identifier: Apache-2.0
"""Advice from results: which setting, why, its price, and why not the others."""
