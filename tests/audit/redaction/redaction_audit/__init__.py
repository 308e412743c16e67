"""A seeded corpus of planted secrets, people, chats and identifiers, and the ruler that measures a redactor with it."""
