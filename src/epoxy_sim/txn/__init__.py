"""The simulator of the ordered engine: the machines, the network and the nemesis of the per-key one, with clients that
ask for transactions and judges of their own."""
