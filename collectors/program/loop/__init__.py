"""The loop of a program with many graphs: what is noted while it runs, and what is made of that."""
