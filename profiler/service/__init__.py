# SPDX-License-Identifier: Apache-2.0
"""`writewise watch`: measures for as long as the host runs, and exports metrics."""
