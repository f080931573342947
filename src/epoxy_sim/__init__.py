"""The simulator: production code in virtual time, those who break things and, apart from them, those who judge."""
