# SPDX-License-Identifier: Apache-2.0
"""The only code that changes the host: journal, apply, verify, restore.

Other packages use `Host`; `changes` has a class for each kind of change, with its undo.
"""
