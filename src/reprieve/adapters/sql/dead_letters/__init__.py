"""What is done about dead letters, written once for both dialects; `applying.py` is the way in."""
