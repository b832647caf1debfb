# SPDX-License-Identifier: Apache-2.0
"""What a setting costs other programs: latency on the volume, and memory."""
