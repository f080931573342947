------------------------------ MODULE EpoxyEarly ------------------------------
(***************************************************************************)
(* EpoxyPerKey with one thing more: Accepts may leave before the own vote  *)
(* of their proposer is durable.                                           *)
(*                                                                         *)
(* A replica that crashes then forgets its own vote, while others may hold *)
(* votes for its proposal.  Its next start is unsure.  It puts nothing     *)
(* forward in the fast round until it has answers: each of them says       *)
(* whether a replica holds such a vote, and from then on that replica does *)
(* not vote for Accepts of the earlier start.  If one does, the start      *)
(* forgoes the fast round of this instance, by a promise at home.          *)
(*                                                                         *)
(* What an unsure start waits for, and whether it forgoes anything, are    *)
(* switches, so that TLC can show what they are for.                       *)
(*                                                                         *)
(* Ballots are numbers of two digits, as in EpoxyPerKey, and the fast      *)
(* round has two counters: 0 in the first start of a proposer, 1 in the    *)
(* second.  Replicas do not tell them apart: a vote names its proposer,    *)
(* and its proposal.  All that is told of a replica waits until what was   *)
(* written there before is durable, so every action of a replica but       *)
(* Select makes its own vote durable, and a crash in between is one that   *)
(* came before the action.                                                 *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Replicas,           \* All voting replicas.
    Proposers,          \* Those that propose, numbered from 1 to 9.
    Forgetful,          \* The proposers that may crash, once.
    MaxCounter,         \* The highest ballot counter explored.
    MaxRecoveries,      \* How many classic ballots may get as far as an Accept.
    Slow,               \* Votes that decide a classic ballot, and promises that a recovery needs.
    Fast,               \* Votes that a proposer needs in the fast round, its own included.
    Answers,            \* How many of the others an unsure start waits for; all of them in the protocol.
    Forgo               \* Whether it forgoes instances of which it has heard.  TRUE in the protocol.

ASSUME /\ Forgetful \subseteq Proposers /\ Proposers \subseteq Replicas /\ Proposers \subseteq 1..9
       /\ Answers \in 0..(Cardinality(Replicas) - 1)
       /\ Forgo \in BOOLEAN

None            == 0
Ballot(c, p)    == 10 * c + p
Counter(b)      == b \div 10
Owner(b)        == b % 10
IsClassic(b)    == Counter(b) >= 2
FastBallots     == {Ballot(c, p) : c \in 0..1, p \in Proposers}
ClassicBallots  == {Ballot(c, p) : c \in 2..MaxCounter, p \in Proposers}
Ballots         == FastBallots \cup ClassicBallots

VARIABLES promised, votes, committed, working, proposal,    \* As in EpoxyPerKey.
    start,      \* For each proposer, 0 before its crash and 1 after it.
    synced,     \* For each proposer, whether its own fast vote is durable.
    answered    \* For each proposer, the replicas that have answered its second start.

vars == <<promised, votes, committed, working, proposal, start, synced, answered>>

Undecided(r)   == committed[r] = None
Untouched(r)   == Undecided(r) /\ promised[r] = None /\ votes[r] = {}
OwnBallot(p)   == Ballot(start[p], p)
Voters(b)      == {r \in Replicas : b \in votes[r]}
Syncs(r)       == synced' = IF r \in Proposers THEN [synced EXCEPT ![r] = TRUE] ELSE synced
Sure(p)        == start[p] = 0 \/ Cardinality(answered[p]) >= Answers

Init == /\ promised  = [r \in Replicas |-> None]
        /\ votes     = [r \in Replicas |-> {}]
        /\ committed = [r \in Replicas |-> None]
        /\ working   = [p \in Proposers |-> None]
        /\ proposal  = [b \in Ballots |-> None]
        /\ start     = [p \in Proposers |-> 0]
        /\ synced    = [p \in Proposers |-> TRUE]
        /\ answered  = [p \in Proposers |-> {}]

-----------------------------------------------------------------------------
(* The fast round.                                                         *)
Select(p) ==
    /\ Untouched(p)
    /\ Sure(p)
    /\ votes'    = [votes EXCEPT ![p] = {OwnBallot(p)}]
    /\ proposal' = [proposal EXCEPT ![OwnBallot(p)] = OwnBallot(p)]
    /\ synced'   = [synced EXCEPT ![p] = FALSE]
    /\ UNCHANGED <<promised, committed, working, start, answered>>

FastAccept(r, b) ==
    /\ Untouched(r)
    /\ proposal[b] # None
    /\ r # Owner(b)
    /\ Counter(b) = start[Owner(b)] \/ r \notin answered[Owner(b)]
    /\ votes' = [votes EXCEPT ![r] = {b}]
    /\ Syncs(r)
    /\ UNCHANGED <<promised, committed, working, proposal, start, answered>>

Conclude(p) ==
    /\ Undecided(p)
    /\ working[p] = None
    /\ promised[p] = None
    /\ OwnBallot(p) \in votes[p]
    /\ Cardinality(Voters(OwnBallot(p))) >= Fast
    /\ committed' = [committed EXCEPT ![p] = OwnBallot(p)]
    /\ Syncs(p)
    /\ UNCHANGED <<promised, votes, working, proposal, start, answered>>

-----------------------------------------------------------------------------
(* A crash, and what the next start does about it.                         *)
Crash(p) ==
    /\ p \in Forgetful
    /\ start[p] = 0
    /\ start'   = [start EXCEPT ![p] = 1]
    /\ votes'   = [votes EXCEPT ![p] = IF synced[p] THEN @ ELSE {}]
    /\ working' = [working EXCEPT ![p] = None]
    /\ UNCHANGED <<promised, committed, proposal, synced, answered>>

(* A ballot of its own, below all that it will work on.                    *)
Forgone == Ballot(2, 0)

HoldsVoteFor(r, p) == Undecided(r) /\ \E b \in votes[r] : Counter(b) < 2 /\ Owner(b) = p

Answer(p, r) ==
    /\ start[p] = 1
    /\ r # p
    /\ r \notin answered[p]
    /\ answered' = [answered EXCEPT ![p] = @ \cup {r}]
    /\ promised' = IF Forgo /\ HoldsVoteFor(r, p) /\ Untouched(p)
                   THEN [promised EXCEPT ![p] = Forgone] ELSE promised
    /\ Syncs(p)
    /\ UNCHANGED <<votes, committed, working, proposal, start>>

-----------------------------------------------------------------------------
(* The classic rounds, as in EpoxyPerKey.                                  *)
NextBallot(p) == Ballot(IF promised[p] \in {None, Forgone} THEN 2 ELSE Counter(promised[p]) + 1, p)

WithinBounds(b) ==
    /\ b \in ClassicBallots
    /\ Cardinality({c \in ClassicBallots : proposal[c] # None}) < MaxRecoveries

Prepare(p) ==
    LET b == NextBallot(p) IN
    /\ Undecided(p)
    /\ WithinBounds(b)
    /\ working'  = [working EXCEPT ![p] = b]
    /\ promised' = [promised EXCEPT ![p] = b]
    /\ Syncs(p)
    /\ UNCHANGED <<votes, committed, proposal, start, answered>>

Preparing(b) == /\ WithinBounds(b)
                /\ working[Owner(b)] = b
                /\ proposal[b] = None
                /\ Undecided(Owner(b))

Promise(r, b) ==
    /\ Undecided(r)
    /\ Preparing(b)
    /\ promised[r] < b
    /\ promised' = [promised EXCEPT ![r] = b]
    /\ Syncs(r)
    /\ UNCHANGED <<votes, committed, working, proposal, start, answered>>

Max(S) == CHOOSE x \in S : \A y \in S : y <= x

VoteBelow(r, b) == Max({None} \cup {v \in votes[r] : v < b})

SlowQuorums(b) == {Q \in SUBSET {r \in Replicas : promised[r] >= b} : Cardinality(Q) >= Slow}

Seen(Q, b) == [r \in Q |-> VoteBelow(r, b)]

HighestVote(seen) == Max({seen[r] : r \in DOMAIN seen})

IsFastVote(b) == b # None /\ ~IsClassic(b)

Observed(seen) == {Owner(seen[r]) : r \in {s \in DOMAIN seen : IsFastVote(seen[s])}}

SeenFor(q, seen) == {r \in DOMAIN seen : IsFastVote(seen[r]) /\ Owner(seen[r]) = q}

Potential(q, seen) ==
    LET outside == Replicas \ DOMAIN seen
        rivals  == Observed(seen) \ {q}
    IN  Cardinality(SeenFor(q, seen)) + Cardinality(outside) - Cardinality(rivals \cap outside)

Candidates(seen) == {q \in Observed(seen) \ DOMAIN seen : Potential(q, seen) >= Fast}

(* Of two proposals of one proposer either may be taken.                   *)
Choices(b, seen) ==
    IF IsClassic(HighestVote(seen)) THEN {proposal[HighestVote(seen)]}
    ELSE IF Candidates(seen) # {}   THEN {seen[r] : r \in UNION {SeenFor(q, seen) : q \in Candidates(seen)}}
    ELSE {b}

Choose(b) ==
    /\ Preparing(b)
    /\ \E Q \in SlowQuorums(b) : \E v \in Choices(b, Seen(Q, b)) :
          proposal' = [proposal EXCEPT ![b] = v]
    /\ UNCHANGED <<promised, votes, committed, working, start, synced, answered>>

ClassicAccept(r, b) ==
    /\ Undecided(r)
    /\ proposal[b] # None
    /\ promised[r] <= b
    /\ promised' = [promised EXCEPT ![r] = b]
    /\ votes'    = [votes EXCEPT ![r] = @ \cup {b}]
    /\ Syncs(r)
    /\ UNCHANGED <<committed, working, proposal, start, answered>>

-----------------------------------------------------------------------------
(* Nothing is learned: see EpoxyPerKey, VotingSpec.                        *)
Next ==
    \/ \E p \in Proposers : Select(p) \/ Conclude(p) \/ Prepare(p) \/ Crash(p)
    \/ \E p \in Proposers, r \in Replicas : Answer(p, r)
    \/ \E r \in Replicas, b \in FastBallots : FastAccept(r, b)
    \/ \E r \in Replicas, b \in ClassicBallots : Promise(r, b) \/ ClassicAccept(r, b)
    \/ \E b \in ClassicBallots : Choose(b)

Spec == Init /\ [][Next]_vars

Symmetry == Permutations(Replicas \ Proposers)

Decided ==
         {committed[r] : r \in {s \in Replicas : ~Undecided(s)}}
    \cup {proposal[b] : b \in {c \in ClassicBallots : IsClassic(c) /\ Cardinality(Voters(c)) >= Slow}}

Agreement == Cardinality(Decided) <= 1

OneFastVote == \A r \in Replicas : Cardinality(votes[r] \cap FastBallots) <= 1

OneCandidate ==
    \A b \in ClassicBallots : Preparing(b) =>
       \A Q \in SlowQuorums(b) :
          IsClassic(HighestVote(Seen(Q, b))) \/ Cardinality(Candidates(Seen(Q, b))) <= 1
=============================================================================
