"""Planning of work on several GPU streams: dependencies, stream assignment and predicted times.

Uses the standard library only, because collectors run it on machines with nothing else.
"""
