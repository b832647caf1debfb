# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG text: each module draws one kind from plain figures."""
