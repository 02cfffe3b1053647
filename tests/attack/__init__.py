"""The dashboard under attack: a table of attacks, and what they are tried with."""
