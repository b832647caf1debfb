"""The only code that changes the host: journal, apply, verify, restore."""
