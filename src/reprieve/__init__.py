"""Reprieve gives failed work a second chance."""
