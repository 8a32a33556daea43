"""Tables: their files, the ids of their rows, and the commits that change them."""
