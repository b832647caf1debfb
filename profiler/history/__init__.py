# SPDX-License-Identifier: Apache-2.0
"""What commands did on this host: entries in a bounded file."""
