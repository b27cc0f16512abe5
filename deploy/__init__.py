"""What is run around the product rather than shipped in it: the demo, and later images and clusters."""
