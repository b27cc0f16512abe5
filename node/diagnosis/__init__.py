"""What is wrong here and how to mend it: the checks of `hyphae doctor`, one area a file, listed in `checks`."""
