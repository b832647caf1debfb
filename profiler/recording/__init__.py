# SPDX-License-Identifier: Apache-2.0
"""Records a profile while a command, a process or a time is waited for; yields a `Profile`."""
