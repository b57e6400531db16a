// Package secagg is secure aggregation: it sums integer vectors of many clients so that the aggregator sees only the sum.
//
// # Use
//
// A client makes a [Party] for a session and joins each round with it; the aggregator makes an [Aggregator] for each. Both are
// state machines without I/O: they return the messages of package protocol.
//
//	advertise     Client.Advertise    -> Aggregator.Receive, Close, Next -> Roster
//	share         Client.Share        -> ...                             -> Delivery
//	masked-input  Client.MaskedInput  -> ...                             -> Survivors
//	consistency   Client.Confirm      -> ... (active mode alone)         -> Quorum
//	unmask        Client.Check, Unmask -> Aggregator.Receive, Close, Sum
//	replace       Client.Replace      -> ... (where noise is replaced alone)
//
// Heavy computations take a protocol.Runner. An [Aggregator] can return the sum if at least ⌈(1-ω)N⌉ clients answered each stage.
//
// # Protocol
//
// Double masking (Bonawitz et al., CCS 2017) on the sparse graph of Bell et al. (CCS 2020). A client adds to its vector its own
// mask and one mask for each neighbour, which cancels against that neighbour's. Each client shares two secret scalars among its
// neighbours ([shamir]): the seed of its own mask and its mask key. Degree and threshold follow from the plan and the number of
// clients on the roster ([GraphParams]). After the masked inputs, neighbours reveal their shares of the first secret for clients that
// survived, and of the second for clients that were lost, never of both for one client. In active mode shares are committed to by
// points, which the aggregator checks before it delivers. In a federation of more than [WholeUpTo] clients, in semi-honest mode, a
// client is shown its neighbours alone, with a proof that they are its part of a ring under one root. Masks ([mask]), channels and
// signatures are bound to the plan, the model, the roster and the list of clients whose shares arrived, so the masks of clients
// that were told different things do not cancel.
//
// Where noise is replaced, a round has two sums. The change of a client's noise says something about the noise that stays, so it is
// masked as well, with separate secrets among the same clients. It travels with the answers to unmask; the second sum is over the
// clients that gave one, and one more stage unmasks it.
//
// # Promise
//
// In semi-honest mode the adversary follows the protocol, reports truthfully which clients were lost, and pools everything that the
// aggregator and up to ⌈γN⌉ clients see. It learns only who took part and the sum over at least ⌈(1-ω)N⌉ clients; where noise is
// replaced, both sums. In active mode, which refuses replaced noise ([ErrReplace]), the aggregator may lie, drop any clients and
// show clients different things, and colluding clients may lie. They learn no more, but they can prevent a sum. This relies on an
// enrolment list ([Params]) that the operator has signed. [GraphParams] has the probabilities of failure. An error that is a
// [Fault] names who broke which rule.
//
// # Ideal sum
//
// [Ideal] is a trusted adder. It goes through the same stages, loses the same clients at the same stages and returns the same
// integers for the same inputs. It hides nothing from the process that runs it, so only a simulation may use it; every result says
// which kind of sum it came from.
package secagg

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

// lift maps the residue x of Z_{2^width} to the integer nearest zero.
func lift(x uint64, width uint8) int64 {
	shift := 64 - width
	return int64(x<<shift) >> shift
}

// ErrRing is returned when no ring is wide enough for a sum.
var ErrRing = errors.New("the sum does not fit a ring of 64 bits")

// ringFailure is the chance, over a whole run, that noise makes a sum wrap.
const ringFailure = 0x1p-40

// Width is the smallest ring width, from 8 to 64 bits, that holds the release's sum over the cohort. The sum may wrap with
// probability at most 2^-40 over the given number of rounds. Width adds clients · largest coordinate and the tail of the noise.
// ErrRing is returned when 64 bits do not suffice; then use a smaller scale.
func Width(c protocol.Cohort, r protocol.Release, rounds int) (uint8, error) {
	if err := c.Validate(); err != nil {
		return 0, err
	}
	if rounds < 1 {
		return 0, fmt.Errorf("%d rounds; there must be at least 1", rounds)
	}
	largest, _ := r.VectorBounds()
	if r.LInf > 0 {
		largest = min(largest, r.LInf*r.Scale+0.5) // rounded to nearest
	}
	reach := float64(c.Clients) * math.Floor(largest)
	if r.Noise.Variance > 0 { // all N clients add a = V/w each: Bernstein, as [protocol.Plan.HonestSumBound] has it
		v, l := float64(c.Clients)*r.Noise.Share(c), math.Log(2*float64(r.Len)*float64(rounds)/ringFailure)
		reach += l/3 + math.Sqrt(l*l/9+2*l*v)
	}
	for width := uint8(8); width <= 64; width++ {
		if reach < math.Ldexp(1, int(width)-1) {
			return width, nil
		}
	}
	return 0, fmt.Errorf("release %q: sums reach %.3g: %w; a smaller scale than %g is needed", r.Name, reach, ErrRing, r.Scale)
}

// Mode says what the aggregator and the colluding clients may do.
type Mode uint8

const (
	// SemiHonest parties follow the protocol, report truthfully who was lost, and may
	// pool what they see.
	SemiHonest Mode = iota
	// Active parties may also lie, drop any clients, and show different clients different
	// things.
	Active
)

// String is the mode's name on the command line.
func (m Mode) String() string {
	switch m {
	case SemiHonest:
		return "semi-honest"
	case Active:
		return "active"
	default:
		return fmt.Sprintf("mode(%d)", uint8(m))
	}
}

// Params are the public parameters of a run of real sums. A client does not take them from the aggregator.
type Params struct {
	// Mode is SemiHonest or Active: what the aggregator and colluding clients may do.
	Mode Mode
	// Rounds is T, failed attempts included: the bounds hold for all of them together.
	Rounds int
	// Identities is the enrolment list, needed in active mode: the Ed25519 public key of every client, by its ClientID. The writer
	// of the list decides which clients exist. So the federation's operator must sign it, not the aggregator or the server.
	Identities []ed25519.PublicKey
	// List, if set, is a hash that all parties of a sum must have alike: clients with another one share no masks.
	List protocol.Hash
	// VerifyInputs, in active mode alone, has each client prove that its input is within its bounds before it is added.
	VerifyInputs bool
	// Beacon, needed in active mode with more than CompleteUpTo clients, is a value for this round that no party could
	// predict before the clients had acknowledged the roster. The ring is drawn from it. Empty: there is none.
	Beacon []byte
}

// ErrReplace is returned in active mode where noise is replaced. The clients that replaced their
// noise are a second set of survivors, and the protocol has no quorum for it.
var ErrReplace = errors.New("secagg: replaced noise is summed in semi-honest mode alone, since in active mode clients would have to agree on who replaced it; split the noise, or use semi-honest mode")

// ErrChosen is returned in active mode if a part of the clients is asked. The party that draws the session's ID could try IDs until
// a choice has one client among colluding ones. No party supplies a beacon that cannot be known before.
var ErrChosen = errors.New("secagg: a part of the clients is chosen by the ID of the session, which an active server would draw until it suits it; ask all, or use semi-honest mode")

// Validate reports everything that makes a real sum of the plan impossible; it names the
// bound that fails where no graph meets all bounds.
func (p Params) Validate(plan *protocol.Plan) error {
	_, err := p.shape(plan)
	return errors.Join(plan.Validate(), p.validateSetup(plan.Setup()), err)
}

// validateSetup is the part that can be checked before there is a plan.
func (p Params) validateSetup(s protocol.Setup) error {
	_, err := p.Graph(s).Choose()
	errs := problems.List{err}
	if p.Mode == Active {
		errs.If(s.Replaces, "%w", ErrReplace)
		errs.If(s.Cohort.Enrolled > 0, "%w", ErrChosen)
		errs.If(len(p.Identities) != s.Cohort.Clients, "the enrolment list has %d keys for %d clients", len(p.Identities), s.Cohort.Clients)
		for id, k := range p.Identities {
			errs.If(len(k) != ed25519.PublicKeySize, "the enrolment list has %d bytes as the key of client %d; an Ed25519 key has %d", len(k), id, ed25519.PublicKeySize)
		}
	}
	return errors.Join(errs...)
}

// Graph are the parameters from which graph and threshold follow. A round that replaces noise counts as two: it has two sums, and
// clients lost in either may cut the graph.
func (p Params) Graph(s protocol.Setup) GraphParams {
	c := s.Cohort
	colluders := c.Colluders
	if c.Enrolled > 0 { // all colluders may be among the clients that stay in the round
		colluders = float64(c.Colluding()) / float64(c.Wanted())
	}
	return GraphParams{
		Cohort: protocol.Cohort{Clients: c.Wanted(), Tolerance: c.Tolerance, Colluders: colluders},
		Mode:   p.Mode, Rounds: p.Rounds * int(layersOf(s)), Beacon: len(p.Beacon) > 0,
	}
}

// Quorum returns the number of signatures over one set of survivors that a client needs to unmask in active mode, with n clients on
// the roster. It is max(⌊(n+c)/2⌋+1, ⌈(1-ω)N⌉), so that any two quorums share an honest signer. The roster is the roster of the
// advertisements; all clients that the aggregator shows later are on it.
func Quorum(c protocol.Cohort, n int) int {
	return max((n+c.Colluding())/2+1, c.Required())
}

// setting hashes everything that is fixed before the first client advertises: the round, the
// clients that may take part in it, and the parameters. The plan may not be known by then.
func (p Params) setting(s protocol.Setup) protocol.Hash {
	t := protocol.NewTranscript("fedsim/secagg/setting/v1").Bytes(s.Session[:]).Uint(s.Round).
		Cohort(s.Cohort).
		Uint(uint64(layersOf(s))).Text(p.Mode.String()).Uint(uint64(p.Rounds)).Bytes(p.Beacon).Uint(uint64(len(p.Identities)))
	for _, k := range p.Identities {
		t.Bytes(k)
	}
	if p.List != (protocol.Hash{}) {
		t.Bytes(p.List[:])
	}
	if p.VerifyInputs {
		t.Text("verify-inputs")
	}
	return t.Sum()
}

// The rules that a message can break.
var (
	// ErrOrder: a stage was entered twice, too early, or after an error.
	ErrOrder = errors.New("the sum is not at this stage")
	ErrRound = errors.New("the round was taken part in already, or belongs to another session")
	ErrPlan  = errors.New("the plan is not of the round that was set up, or there is one already")
	// ErrMalformed: sizes, order or encodings are not what the stage asks for.
	ErrMalformed = errors.New("the message is malformed")
	ErrKeys      = errors.New("the keys are not the advertised keys")
	// ErrSignature: a signature is missing or does not verify.
	ErrSignature = errors.New("the signature does not verify")
	ErrShare     = errors.New("the share is missing, does not open, or is not what its dealer committed to")
	// ErrSurvivors: the survivors, of the first sum or the second, are impossible: too
	// few, not all present before, or without the client that is asked.
	ErrSurvivors = errors.New("these cannot be the survivors")
	ErrLocked    = errors.New("other survivors were shown before; a client answers for one set only")
	ErrQuorum    = errors.New("too few clients signed these survivors")
)

// Fault says who broke which rule. The culprit is the party whose message is wrong, as far as the receiver can know: for unsigned
// data that came through the aggregator, it is the aggregator.
type Fault struct {
	Culprit protocol.Party
	Round   uint64
	Stage   protocol.Stage
	Err     error
}

func (f *Fault) Error() string {
	return fmt.Sprintf("round %d, stage %s: %s is at fault: %v", f.Round, f.Stage, f.Culprit, f.Err)
}

// Unwrap returns the rule that was broken.
func (f *Fault) Unwrap() error { return f.Err }

// layer is one of the sums of a round: the sum of the inputs or, where noise is replaced, the sum of the changes of noise. Both are
// over the same clients and the same graph. Each has secrets, shares and masks of its own, and every transcript names its layer.
// The reason: a client may be in the first sum and fall silent before the second. Neighbours then reveal its seed of the first
// layer and its key of the second. If either were good for the other layer's masks, that would open its input.
type layer uint8

const (
	ofInputs layer = iota
	ofChanges
	layers // the largest number of layers
)

// layersOf returns the number of sums of a round.
func layersOf(s protocol.Setup) layer {
	if s.Replaces {
		return layers
	}
	return 1
}

// tag is a word of a transcript for this layer alone.
func (l layer) tag(word string) string {
	if l == ofChanges {
		return "change-" + word
	}
	return word
}

// key is the mask key among a client's keys, which must have one.
func (l layer) key(k *protocol.Keys) protocol.Key {
	if l == ofChanges {
		return *k.Change
	}
	return k.Mask
}

// Stage 5, replace (where noise is replaced; not in Bonawitz et al.): the unmasking of the second
// sum. The answers to unmask carried what noise changes by, masked as the inputs were. The clients
// that answered are U2; the others of U1 keep the noise that is in their inputs.

// Replace reveals the shares that the second sum needs, for the clients that were shown to have answered unmask. After it has
// accepted such a set, it returns the same answer for the same set and ErrLocked for any other. The set must be as large as a sum
// requires and must include this client; otherwise it takes no further part in the round.
func (c *Client) Replace(m *protocol.Answered) (*protocol.Replacement, error) {
	u2 := partialView{m.Count, m.U2, m.Digest}
	if c.replacement != nil {
		if u2.is(c.answered) {
			return c.replacement, nil
		}
		return nil, c.lie(protocol.StageReplace, ErrLocked)
	}
	if err := c.enter(protocol.StageReplace); err != nil {
		return nil, err
	}
	if err := c.isAmong(u2, c.survivors); err != nil {
		return nil, c.lie(protocol.StageReplace, err)
	}
	c.answered = u2.clone()
	c.replacement = &protocol.Replacement{Round: c.plan.Round, Shares: c.reveal(ofChanges, c.survivors.known, c.answered.known)}
	return c.replacement, nil
}

// Cost is a client's cost of a real sum, in a round in which no client is lost. Bytes is the size of each kind of message when it
// travels alone, 0 if there is none, for the client whose messages are longest. The first clients' messages, and most that travel
// inside another, are a few bytes shorter; with several releases, each vector beyond the first takes a few more. Unmask includes
// the expected size of the removals, which is Removal.
type Cost struct {
	Choice  GraphChoice
	Bytes   [protocol.Kinds]int
	Removal int
	Proof   int // about a client's input, without the blindings
}

// Cost says what each round of a plan costs. It returns the errors of Validate.
func (p Params) Cost(plan *protocol.Plan) (Cost, error) {
	if err := p.Validate(plan); err != nil {
		return Cost{}, err
	}
	setup := plan.Setup()
	choice, err := p.Graph(setup).Choose()
	if err != nil {
		return Cost{}, err
	}
	n, k, it := plan.Cohort.Wanted(), choice.Degree, plan.Round
	first := protocol.ClientID(plan.Cohort.All() - n) // of all clients, the clients with the longest numbers
	last := first + protocol.ClientID(n-1)
	var signature []byte
	share := protocol.EncryptedShare{Peer: last, Ciphertext: make([]byte, plaintextSize(layersOf(setup))+chacha20poly1305.Overhead)}
	if p.Mode == Active {
		signature = make([]byte, ed25519.SignatureSize)
		share.Committed = &protocol.Commitments{Signature: signature}
	}
	shares, revealed := make([]protocol.EncryptedShare, k), make([]protocol.RevealedShare, k)
	for i := range shares {
		shares[i], revealed[i].Of = share, last
	}
	var change *protocol.Key
	var changeHash *protocol.Hash
	if setup.Replaces {
		change, changeHash = new(protocol.Key), new(protocol.Hash)
	}
	members, signed := make([]protocol.Member, n), make([]protocol.Signed, n)
	for i := range members {
		members[i] = protocol.Member{Client: first + protocol.ClientID(i), Keys: protocol.Keys{Change: change, Signature: signature}}
		signed[i] = protocol.Signed{Client: first + protocol.ClientID(i), Signature: signature}
	}
	var removed [][]byte
	for _, r := range plan.Releases {
		if !r.Noise.Reduced() {
			removed = append(removed, nil) // stands in the list, though empty
		}
	}
	proof, blindings, _ := p.ProofSize(plan) // which Validate has tried
	c := Cost{Choice: choice, Removal: plan.RemovalSize(n), Proof: proof}
	roster, set := &protocol.Roster{Round: it, Clients: n, Members: members}, partialView{count: n, known: protocol.NewBitmap(n)}
	if p.inParts(setup) {
		roster.Members = members[max(0, n-k-1):]
		roster.Ring = &protocol.Ring{Start: n - 1, Proof: make([]protocol.Hash, 2*bits.Len(uint(n-1)))} // the largest there can be
		set.known, set.digest = protocol.NewBitmap(len(roster.Members)), new(protocol.Hash)
	}
	messages := []protocol.Message{
		&protocol.Announce{Plan: plan}, &protocol.Advertise{Round: it, Keys: &members[0].Keys}, roster,
		&protocol.Shares{Round: it, ChangeHash: changeHash, Shares: shares},
		&protocol.Delivery{Round: it, Clients: n, Arrived: set.known, Digest: set.digest, Shares: shares},
		&protocol.Prepared{Round: it}, &protocol.Proceed{Round: it}, // which the roles add to the sum's stages
		&protocol.MaskedInput{Round: it, Packed: plan.PackedSize(), Proof: make([]byte, proof), Blindings: make([]byte, blindings)},
		&protocol.Survivors{Round: it, Count: n, U1: set.known, Digest: set.digest},
		&protocol.Unmask{Round: it, Shares: revealed, Removed: removed, Packed: c.Removal},
	}
	if p.Mode == Active {
		messages = append(messages, &protocol.Consistency{Round: it, Signature: signature}, &protocol.Quorum{Round: it, Signatures: signed})
	}
	if setup.Replaces {
		messages = append(messages, &protocol.Answered{Round: it, Count: n, U2: set.known, Digest: set.digest}, &protocol.Replacement{Round: it, Shares: revealed})
	}
	for _, m := range messages {
		c.Bytes[m.Kind()] = protocol.Size(m)
	}
	return c, nil
}
