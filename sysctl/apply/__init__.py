# SPDX-License-Identifier: Apache-2.0
"""Taking a recommendation in force: what would change, the change, whether it still holds."""
