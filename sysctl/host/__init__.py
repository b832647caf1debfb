"""The only code that changes the host: journal, apply, verify, restore.

`Host` is the way in; `changes` has a class for each kind of change and how it is taken back.
"""
