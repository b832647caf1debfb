# SPDX-License-Identifier: Apache-2.0
"""What all three packages use: units, text, errors, trusted files and programs."""
