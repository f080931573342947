---------------------------------- MODULE MC ----------------------------------
(***************************************************************************)
(* What TLC needs beside EpoxyPerKey: a symmetry, and a coarser step for   *)
(* the larger configurations.                                              *)
(***************************************************************************)
EXTENDS EpoxyPerKey, TLC

(* Ballots compare the numbers of proposers, so no two proposers may be    *)
(* exchanged.  Replicas that never propose own no ballot: they are model   *)
(* values, and any two of them may.                                        *)
Symmetry == Permutations(Replicas \ Proposers)

(***************************************************************************)
(* A promise only matters to the Choose that reads it.  Until then it does *)
(* nothing but keep its replica from voting, and no replica has to vote.   *)
(* If the replica promises or votes higher in the meantime, that counts as *)
(* a promise as well.  So every run has a twin in which the promises of a  *)
(* recovery are given together, in the same step as its Choose.  Prepare,  *)
(* with its promise at home, stays a step of its own: it cannot wait.      *)
(***************************************************************************)
MayPromise(b) == {r \in Replicas : Undecided(r) \/ promised[r] >= b}

Gatherable(b) == {Q \in SUBSET MayPromise(b) : Cardinality(Q) >= Slow}

Gather(b) ==
    /\ Preparing(b)
    /\ \E Q \in Gatherable(b) :
         /\ promised' = [r \in Replicas |-> IF r \in Q /\ promised[r] < b THEN b ELSE promised[r]]
         /\ \E v \in Choices(b, Seen(Q, b)) : proposal' = [proposal EXCEPT ![b] = v]
    /\ UNCHANGED <<votes, committed, working>>

Gathering ==
    \/ \E p \in Proposers : Select(p) \/ Conclude(p) \/ Prepare(p)
    \/ \E r \in Replicas, b \in FastBallots : FastAccept(r, b)
    \/ \E r \in Replicas, b \in ClassicBallots : ClassicAccept(r, b)
    \/ \E b \in ClassicBallots : Gather(b)

GatheringSpec == Init /\ [][Gathering]_vars

OneCandidateGathering ==
    \A b \in ClassicBallots : Preparing(b) =>
       \A Q \in Gatherable(b) :
          IsClassic(HighestVote(Seen(Q, b))) \/ Cardinality(Candidates(Seen(Q, b))) <= 1
===============================================================================
