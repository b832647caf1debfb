# SPDX-License-Identifier: Apache-2.0
"""Reports as one HTML file: from a command's JSON document to a page that opens offline."""
