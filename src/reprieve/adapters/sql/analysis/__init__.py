"""What is known of signatures, and what waits for a person."""
