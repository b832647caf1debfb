# SPDX-License-Identifier: Apache-2.0
"""Each knob as data: range, default, how it takes effect, risk and source."""
