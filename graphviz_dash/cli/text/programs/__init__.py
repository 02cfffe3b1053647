"""What is printed of programs as a whole: what a compiler made of them."""
