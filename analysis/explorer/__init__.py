"""The page on which a person looks at runs in a browser, and at particles and a network that move as they look."""
