"""Changing members, pure: what comes next, what a learner asks for, whose store this is."""
