# SPDX-License-Identifier: Apache-2.0
"""Sets of objects to pull that others have published figures for: YAML files, and their loader."""
