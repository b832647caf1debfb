# SPDX-License-Identifier: Apache-2.0
"""A recommended change as data: advice makes it, the renderers and `apply` use it."""
