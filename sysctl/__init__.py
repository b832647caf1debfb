# SPDX-License-Identifier: Apache-2.0
"""What to change and why: knobs, safe changes of the host, sweeps and advice."""
