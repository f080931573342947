"""`make mutate`: small random changes of production code, and whether the tests of their room notice them."""
