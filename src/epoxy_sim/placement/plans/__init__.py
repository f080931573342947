"""Plans that aim at one rule: random faults rarely meet the moment in which it counts."""
