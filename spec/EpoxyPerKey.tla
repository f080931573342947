----------------------------- MODULE EpoxyPerKey -----------------------------
(***************************************************************************)
(* How the replicas of Epoxy agree on the value of one key.                *)
(*                                                                         *)
(* One instance of consensus: an immutable key, or what comes on top of    *)
(* one version (the base) of a mutable one, be it one write or a fold of   *)
(* several: see EpoxyFolds.  A replica enters an instance only with its    *)
(* base committed, so here the base does not occur.                        *)
(*                                                                         *)
(* Every proposer is itself a replica.  A write first tries                *)
(* the fast round: one round trip, no leader, any proposer.  Whoever       *)
(* cannot finish there falls back to classic Paxos ballots, and must first *)
(* find out which fast proposal may already have been committed.           *)
(*                                                                         *)
(* Fast Paxos needs 2*Fast + Slow > 2*N for that.  Two rules buy the two   *)
(* replicas that let Fast be a bare majority at N = 3 and N = 5.  Each has *)
(* a switch here, so that TLC can show what it is for:                     *)
(*                                                                         *)
(*   CommitGuard        A proposer commits its fast round in a transaction *)
(*                      at home, and only if its own replica has promised  *)
(*                      no classic ballot.                                 *)
(*   ProposerExclusion  A recovery therefore drops the proposal of every   *)
(*                      proposer it has a promise from.                    *)
(*                                                                         *)
(* Only safety is specified.  Nothing here forces anybody to take a step,  *)
(* so a replica that has crashed is one that takes no more of them.        *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Replicas,           \* All voting replicas.
    Proposers,          \* Those that propose, numbered from 1 to 9, because ballots compare them.
    MaxCounter,         \* The highest ballot counter explored.
    MaxRecoveries,      \* How many classic ballots may get as far as an Accept.
    Slow,               \* Votes that decide a classic ballot, and promises that a recovery needs.
    Fast,               \* Votes that a proposer needs in the fast round, its own included.
    CommitGuard,        \* TRUE in the protocol.
    ProposerExclusion   \* TRUE in the protocol.

N == Cardinality(Replicas)

ASSUME /\ Proposers \subseteq Replicas
       /\ Proposers \subseteq 1..9
       /\ MaxCounter \in Nat /\ MaxRecoveries \in Nat
       /\ CommitGuard \in BOOLEAN
       /\ ProposerExclusion \in BOOLEAN

(* Two slow quorums meet.  Two fast quorums and a slow one meet often      *)
(* enough to tell the two fast proposals apart, but for the two replicas   *)
(* that the two rules above account for.                                   *)
ASSUME /\ Slow \in 1..N /\ 2 * Slow > N
       /\ Fast \in Slow..N
       /\ 2 * Fast + Slow > 2 * N - 2

-----------------------------------------------------------------------------
(***************************************************************************)
(* Ballots and proposals.                                                  *)
(*                                                                         *)
(* A ballot is a counter and the proposer that owns it, in lexicographic   *)
(* order.  Here it is written as a number of two digits, so that < is that *)
(* order: 23 is counter 2 of proposer 3.  Counter 1 is the fast round, in  *)
(* which every proposer has a ballot of its own and every replica one      *)
(* vote; counter 2 and above are classic.  0 stands for none.              *)
(*                                                                         *)
(* A proposal is named by the ballot in which it was first put forward.    *)
(* So a proposer that is free to choose always brings a write that nobody  *)
(* has seen before.  That is the worst case: it covers a client that gave  *)
(* up and another that came, and a proposer that restarted and remembers   *)
(* only what its replica made durable.  If these never disagree, neither   *)
(* does a proposer that repeats itself.                                    *)
(***************************************************************************)
None           == 0
Ballot(c, p)   == 10 * c + p
Counter(b)     == b \div 10
Owner(b)       == b % 10
FastBallot(p)  == Ballot(1, p)
FastBallots    == {FastBallot(p) : p \in Proposers}
ClassicBallots == {Ballot(c, p) : c \in 2..MaxCounter, p \in Proposers}
Ballots        == FastBallots \cup ClassicBallots
IsClassic(b)   == Counter(b) >= 2

-----------------------------------------------------------------------------
(***************************************************************************)
(* There is no network in this specification, because a record that is     *)
(* kept for ever is a message that is never lost from it.  Each action is  *)
(* one durable transaction of one replica.  What it would send is what it  *)
(* wrote, and whoever reads that record later is receiving the message:    *)
(* late, more than once, in any order, or never.                           *)
(*                                                                         *)
(* A restart changes none of this state but the ballot a proposer is       *)
(* working on, and Prepare may replace that at any time.  So a restart is  *)
(* no action of its own either.                                            *)
(***************************************************************************)
VARIABLES
    promised,   \* For each replica, the highest classic ballot it has promised or voted in.
    votes,      \* For each replica, the ballots it has voted in.  The highest is its vote.
    committed,  \* For each replica, the proposal it knows to be decided.
    working,    \* For each proposer, the classic ballot it works on; None in the fast round.
    proposal    \* For each ballot, the proposal its Accept carries, once that is sent.

vars == <<promised, votes, committed, working, proposal>>

Undecided(r) == committed[r] = None
Untouched(r) == Undecided(r) /\ promised[r] = None /\ votes[r] = {}
Voters(b)    == {r \in Replicas : b \in votes[r]}

Init == /\ promised  = [r \in Replicas |-> None]
        /\ votes     = [r \in Replicas |-> {}]
        /\ committed = [r \in Replicas |-> None]
        /\ working   = [p \in Proposers |-> None]
        /\ proposal  = [b \in Ballots |-> None]

-----------------------------------------------------------------------------
(***************************************************************************)
(* The fast round.                                                         *)
(***************************************************************************)

(* A proposer selects the fast round only on an untouched key, and votes   *)
(* for itself in the same transaction, before any Accept leaves.  Recovery *)
(* relies on it: whoever has seen a proposal of p knows how p voted.       *)
Select(p) ==
    /\ Untouched(p)
    /\ votes'    = [votes EXCEPT ![p] = {FastBallot(p)}]
    /\ proposal' = [proposal EXCEPT ![FastBallot(p)] = FastBallot(p)]
    /\ UNCHANGED <<promised, committed, working>>

(* One vote for each replica in the fast round, or two fast quorums could  *)
(* both succeed; and none after a promise, or the promise meant nothing.   *)
FastAccept(r, b) ==
    /\ Untouched(r)
    /\ proposal[b] # None
    /\ votes' = [votes EXCEPT ![r] = {b}]
    /\ UNCHANGED <<promised, committed, working, proposal>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Deciding.  A replica that has committed answers everything with the     *)
(* decision, so its promise and its votes stand still from then on.        *)
(***************************************************************************)
Commit(r, v) ==
    /\ Undecided(r)
    /\ committed' = [committed EXCEPT ![r] = v]
    /\ UNCHANGED <<promised, votes, working, proposal>>

(* A fast quorum of votes alone decides nothing.  The proposer decides, in *)
(* a transaction that reads its own promise again.  So a promise from the  *)
(* proposer is proof that it has not decided in the fast round and never   *)
(* will, however many votes are on their way to it.                        *)
Conclude(p) ==
    /\ working[p] = None
    /\ Cardinality(Voters(FastBallot(p))) >= Fast
    /\ CommitGuard => promised[p] = None
    /\ Commit(p, FastBallot(p))

(* After a classic round there is nothing to guard: the votes of a slow    *)
(* quorum are the decision, whatever was promised since.                   *)
Chosen(b) == IsClassic(b) /\ Cardinality(Voters(b)) >= Slow

Decide(p) ==
    /\ Chosen(working[p])
    /\ Commit(p, proposal[working[p]])

(* A decision is always safe to learn, whatever was promised.              *)
Learn(r) == \E s \in Replicas : ~Undecided(s) /\ Commit(r, committed[s])

-----------------------------------------------------------------------------
(***************************************************************************)
(* The classic rounds.                                                     *)
(***************************************************************************)

(* A proposer may give up what it was doing at any time: the fast round is *)
(* out of reach, a timer fired, a ballot was refused, or it restarted and  *)
(* forgot.  It reserves a ballot above all that its own replica has seen,  *)
(* by promising it at home before any Prepare leaves.  That home promise   *)
(* keeps the ballot unique across restarts, and lets the guard of Conclude *)
(* see that the fast round was given up.                                   *)
(*                                                                         *)
(* A refusal may have told the proposer of a higher counter elsewhere.  To *)
(* skip counters is to prepare each of them and have nobody answer.        *)
NextBallot(p) == Ballot(IF promised[p] = None THEN 2 ELSE Counter(promised[p]) + 1, p)

(* Two bounds for TLC alone.                                               *)
WithinBounds(b) ==
    /\ b \in ClassicBallots
    /\ Cardinality({c \in ClassicBallots : proposal[c] # None}) < MaxRecoveries

Prepare(p) ==
    LET b == NextBallot(p) IN
    /\ Undecided(p)
    /\ WithinBounds(b)
    /\ working'  = [working EXCEPT ![p] = b]
    /\ promised' = [promised EXCEPT ![p] = b]
    /\ UNCHANGED <<votes, committed, proposal>>

(* The owner has sent Prepare, and still collects promises.  A promise     *)
(* that comes later than that would only tie the replica's own hands, and  *)
(* a replica whose hands are tied does nothing that a slow one would not.  *)
Preparing(b) == /\ WithinBounds(b)
                /\ working[Owner(b)] = b
                /\ proposal[b] = None
                /\ Undecided(Owner(b))

(* A promise never changes the vote.                                       *)
Promise(r, b) ==
    /\ Undecided(r)
    /\ Preparing(b)
    /\ promised[r] < b
    /\ promised' = [promised EXCEPT ![r] = b]
    /\ UNCHANGED <<votes, committed, working, proposal>>

(***************************************************************************)
(* What a recovery reads.  The vote that came with the promise of b is the *)
(* replica's highest below b, since it casts no vote below b afterwards.   *)
(* By the same reason a replica that promised more than b may count as     *)
(* having promised b: that allows more than a real network does.           *)
(***************************************************************************)
Max(S) == CHOOSE x \in S : \A y \in S : y <= x

VoteBelow(r, b) == Max({None} \cup {v \in votes[r] : v < b})

SlowQuorums(b) == {Q \in SUBSET {r \in Replicas : promised[r] >= b} : Cardinality(Q) >= Slow}

(* From here on, seen is the function from the replicas of such a quorum   *)
(* to their votes below the ballot.                                        *)
Seen(Q, b) == [r \in Q |-> VoteBelow(r, b)]

HighestVote(seen) == Max({seen[r] : r \in DOMAIN seen})

Observed(seen) == {Owner(seen[r]) : r \in {s \in DOMAIN seen : Counter(seen[s]) = 1}}

(* How many fast votes q may have: those seen for it, and everybody not    *)
(* heard from, except observed proposers, for they voted for themselves.   *)
Potential(q, seen) ==
    LET outside == Replicas \ DOMAIN seen
        rivals  == Observed(seen) \ {q}
    IN    Cardinality({r \in DOMAIN seen : seen[r] = FastBallot(q)})
        + Cardinality(outside) - Cardinality(rivals \cap outside)

(* A proposer in the quorum has promised before it committed, so it has    *)
(* not, and now never will.                                                *)
Candidates(seen) ==
    LET heard == IF ProposerExclusion THEN DOMAIN seen ELSE {}
    IN {q \in Observed(seen) \ heard : Potential(q, seen) >= Fast}

(* What ballot b may carry.  It is one proposal and not a choice, if the   *)
(* protocol is right; the invariant OneCandidate says so.                  *)
Choices(b, seen) ==
    IF IsClassic(HighestVote(seen)) THEN {proposal[HighestVote(seen)]}
    ELSE IF Candidates(seen) # {}   THEN {FastBallot(q) : q \in Candidates(seen)}
    ELSE {b}

Choose(b) ==
    /\ Preparing(b)
    /\ \E Q \in SlowQuorums(b) : \E v \in Choices(b, Seen(Q, b)) :
          proposal' = [proposal EXCEPT ![b] = v]
    /\ UNCHANGED <<promised, votes, committed, working>>

ClassicAccept(r, b) ==
    /\ Undecided(r)
    /\ proposal[b] # None
    /\ promised[r] <= b
    /\ promised' = [promised EXCEPT ![r] = b]
    /\ votes'    = [votes EXCEPT ![r] = @ \cup {b}]
    /\ UNCHANGED <<committed, working, proposal>>

-----------------------------------------------------------------------------
Voting ==
    \/ \E p \in Proposers : Select(p) \/ Conclude(p) \/ Prepare(p)
    \/ \E r \in Replicas, b \in FastBallots : FastAccept(r, b)
    \/ \E r \in Replicas, b \in ClassicBallots : Promise(r, b) \/ ClassicAccept(r, b)
    \/ \E b \in ClassicBallots : Choose(b)

Learning ==
    \/ \E p \in Proposers : Decide(p)
    \/ \E r \in Replicas : Learn(r)

Next == Voting \/ Learning

Spec == Init /\ [][Next]_vars

(* Learning hands out a decision that is already counted as Decided below, *)
(* and makes a replica silent, which it may be anyway.  So a run with      *)
(* Learning has a twin without it that votes and decides the same, and the *)
(* large configurations may leave it out.                                  *)
VotingSpec == Init /\ [][Voting]_vars

-----------------------------------------------------------------------------
(***************************************************************************)
(* What must always hold.                                                  *)
(***************************************************************************)
TypeOK == /\ promised  \in [Replicas -> ClassicBallots \cup {None}]
          /\ votes     \in [Replicas -> SUBSET Ballots]
          /\ committed \in [Replicas -> Ballots \cup {None}]
          /\ working   \in [Proposers -> ClassicBallots \cup {None}]
          /\ proposal  \in [Ballots -> Ballots \cup {None}]

(* Everything that anybody was told, or could be told.  A classic ballot   *)
(* with a slow quorum of votes counts even if its owner never hears of it. *)
Decided ==
         {committed[r] : r \in {s \in Replicas : ~Undecided(s)}}
    \cup {proposal[b] : b \in {c \in ClassicBallots : Chosen(c)}}

Agreement == Cardinality(Decided) <= 1

OneFastVote == \A r \in Replicas : Cardinality(votes[r] \cap FastBallots) <= 1

PromisesCoverVotes ==
    \A r \in Replicas : \A b \in votes[r] : IsClassic(b) => b <= promised[r]

(* Whichever quorum answers, the recovery is in no doubt.                  *)
OneCandidate ==
    \A b \in ClassicBallots : Preparing(b) =>
       \A Q \in SlowQuorums(b) :
          IsClassic(HighestVote(Seen(Q, b))) \/ Cardinality(Candidates(Seen(Q, b))) <= 1

PromisesRise == [][\A r \in Replicas : promised[r] <= promised'[r]]_vars
=============================================================================
