# SPDX-License-Identifier: Apache-2.0
"""Compares two measurements that were saved as files: what differs, and by how much."""
