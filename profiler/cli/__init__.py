# SPDX-License-Identifier: Apache-2.0
"""The command line: one command per file; only `main` prints errors and chooses exit codes."""
