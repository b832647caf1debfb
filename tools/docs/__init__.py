# SPDX-License-Identifier: Apache-2.0
"""The generated pages of docs/reference, the man pages and the shell completions."""
