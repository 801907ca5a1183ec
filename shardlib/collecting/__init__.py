"""Finding the tests: a pytest plugin in a child process, its parent, and the document that comes of it."""
