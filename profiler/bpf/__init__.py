# SPDX-License-Identifier: Apache-2.0
"""BPF programs: how they are loaded, and what they count."""
