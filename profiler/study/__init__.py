# SPDX-License-Identifier: Apache-2.0
"""A sweep on this host from end to end: what is tried, and one trial."""
