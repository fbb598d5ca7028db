"""Simulated prefix caches: of whole sessions (objects) and block by block."""
