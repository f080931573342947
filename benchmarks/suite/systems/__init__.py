"""What is measured: how each is started, what it is asked, and what a right answer is."""
