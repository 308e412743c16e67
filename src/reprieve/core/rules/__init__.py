"""What is known of each library's exceptions: one module a family, one table in all."""
