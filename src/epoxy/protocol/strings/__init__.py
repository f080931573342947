"""What the string commands of Redis mean, on registers: the value of a key, and the time it has left.

One definition for single commands, for MULTI on one key or several, and for scripts. `evaluation.py` is the entrance.
"""
