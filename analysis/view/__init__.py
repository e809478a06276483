"""What is to be seen of a run, as arrays, and how it is drawn: scenes, colours, artists, films."""
