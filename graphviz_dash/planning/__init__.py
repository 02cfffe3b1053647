"""Work on several streams of a GPU, planned: what needs what, which stream issues it, how long it
takes. Standard library only: collectors use it on machines that have no more."""
