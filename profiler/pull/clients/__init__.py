# SPDX-License-Identifier: Apache-2.0
"""Pull clients: one module for each client or family of programs."""
