# SPDX-License-Identifier: Apache-2.0
"""The .deb and the .rpm: `make packages` builds them into dist/."""
