package secagg

import (
	"cmp"
	"crypto/ecdh"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/secagg/inputproof"
	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/internal/secagg/shamir"
	"github.com/fedsim/fedsim/protocol"
)

// PartyConfig configures a party.
type PartyConfig struct {
	ID      protocol.ClientID
	Session protocol.SessionID
	Params  Params
	Entropy entropy.Source
	// Identity signs for the client in active mode; its public half is on the enrolment list.
	Identity ed25519.PrivateKey
	// Agreements, in a simulation, are shared by all its parties; nil in a deployment.
	Agreements *Agreements
	// Last is the latest round of the session that was recorded before a restart: the party takes part in later ones only. 0: none.
	Last uint64
}

// Party is a client for the length of a session: it holds the channel key, which
// is never shared. Its methods are for one goroutine at a time.
type Party struct {
	cfg     PartyConfig
	channel *ecdh.PrivateKey
	last    uint64 // the latest round whose plan was taken
	setups  uint64 // how many there were
}

// NewParty draws the channel key of the session.
func NewParty(cfg PartyConfig) (*Party, error) {
	if cfg.Params.Mode == Active {
		if len(cfg.Identity) != ed25519.PrivateKeySize {
			return nil, fmt.Errorf("secagg: a client needs its identity key in active mode: %d bytes, %d expected", len(cfg.Identity), ed25519.PrivateKeySize)
		}
		own := ed25519.PublicKey(cfg.Identity[ed25519.SeedSize:])
		if int64(cfg.ID) >= int64(len(cfg.Params.Identities)) || !own.Equal(cfg.Params.Identities[cfg.ID]) {
			return nil, fmt.Errorf("secagg: the enrolment list does not have this key for client %d", cfg.ID)
		}
	}
	var b [32]byte
	if _, err := io.ReadFull(cfg.Entropy.Stream("secagg/channel", 0), b[:]); err != nil {
		return nil, err
	}
	k, err := ecdh.X25519().NewPrivateKey(b[:])
	if err != nil {
		return nil, err
	}
	return &Party{cfg: cfg, channel: k, last: cfg.Last}, cfg.Agreements.leave(0, k)
}

// Join sets up a round with new secrets, so that a setup that failed can be started again. ErrRound is returned for a round that is
// not later than the last one begun and not withdrawn, or that belongs to another session.
func (p *Party) Join(s protocol.Setup) (*Client, error) {
	if err := cmp.Or(p.later(s), errors.Join(s.Cohort.Validate(), p.cfg.Params.validateSetup(s))); err != nil {
		return nil, err
	}
	if !s.Chooses(p.cfg.ID) {
		return nil, fmt.Errorf("secagg: client %d is none of the %d that take part", p.cfg.ID, s.Cohort.Clients)
	}
	p.setups++
	return &Client{party: p, setup: s, setting: p.cfg.Params.setting(s), draw: p.setups}, nil
}

func (p *Party) later(s protocol.Setup) error {
	if s.Session != p.cfg.Session || s.Round <= p.last {
		return fmt.Errorf("%w: round %d, the last one was %d", ErrRound, s.Round, p.last)
	}
	return nil
}

// Client is a client's side of the real sum of one round. It answers each stage once, in order, and needs the plan from the masked
// input on; after an error it answers nothing more. Confirm, Unmask and Replace may be called again with the same arguments and
// return the same answer.
type Client struct {
	party   *Party
	setup   protocol.Setup
	plan    *protocol.Plan    // nil before Begin
	shape   *inputproof.Shape // nil unless inputs are verified
	setting protocol.Hash
	draw    uint64         // which setup of the party's this is: tells its randomness apart
	stage   protocol.Stage // the next to answer; Stages after the last or an error
	fate    uint32         // undecided, withdrawn or bound; atomic

	own  [layers]secrets // a layer's are forgotten when its vectors are masked
	keys protocol.Keys

	roster   *roster
	self     int // place on the roster
	peers    []peer
	channels [][32]byte                // what the channel keys of client and peer have in common; nil once the shares are opened
	held     [layers][]encryptedShares // what each peer dealt, if its shares arrived
	arrived  partialView
	context  mask.Context

	survivors partialView           // the only ones; empty before they are shown
	confirmed *protocol.Consistency // in active mode, over survivors
	checked   bool                  // Check accepted them
	answer    *protocol.Unmask

	answered    partialView // U2, the only one; empty before it is shown
	replacement *protocol.Replacement
}

// The fates of a setup whose round was begun. Of a round's setups at most one is bound to survivors.
const (
	undecided uint32 = iota
	withdrawn        // the client answers nothing more
	bound            // the client was shown survivors
)

// secrets are the sources of a client's masks of a layer.
type secrets struct {
	seed shamir.Secret
	key  privateKey
}

// peer is a neighbour on the graph.
type peer struct {
	at     int // place on the roster
	id     protocol.ClientID
	faulty bool // it dealt shares of which no use can be made
}

// Begin takes the plan of the round that was set up, before the masked input at the latest. A party
// begins each round once, unless it withdraws: Begin returns ErrRound for a round that is not later
// than the last it began, and ErrPlan for a plan of another setup.
func (c *Client) Begin(plan *protocol.Plan) error {
	if plan.Setup() != c.setup || c.plan != nil {
		return ErrPlan
	}
	if err := cmp.Or(c.party.later(c.setup), plan.Validate()); err != nil {
		return err
	}
	shape, err := c.party.cfg.Params.shape(plan)
	if err != nil {
		return err
	}
	c.party.last = plan.Round
	c.plan, c.shape = plan, shape
	return nil
}

// Withdraw gives up a setup whose masked input has not left the client. The client answers nothing more, and its party may
// join the round again. It has no effect once the client was shown survivors. It may be called while an answer is computed.
func (c *Client) Withdraw() {
	if atomic.CompareAndSwapUint32(&c.fate, undecided, withdrawn) && c.plan != nil && c.party.last == c.plan.Round {
		c.party.last--
	}
}

// Heavy reports that computing answers is worth being scheduled as work.
func (c *Client) Heavy() bool { return true }

// DrawsNoise reports that clients draw the noise themselves, each its share.
func (c *Client) DrawsNoise() bool { return false }

// Confirms reports whether survivors are signed before they are unmasked.
func (c *Client) Confirms() bool { return c.party.cfg.Params.Mode == Active }

// course is which stages the round goes through.
func (c *Client) course() protocol.StageFlow {
	return protocol.StageFlow{Confirms: c.Confirms(), Replaces: c.setup.Replaces}
}

// enter begins a stage. Until it ends well the client is at no stage at all.
func (c *Client) enter(s protocol.Stage) error {
	if c.stage != s || atomic.LoadUint32(&c.fate) == withdrawn {
		return fmt.Errorf("%w: %s", ErrOrder, s)
	}
	c.stage = protocol.Stages
	return nil
}

// fault blames a party for what it sent in a stage.
func (c *Client) fault(culprit protocol.Party, s protocol.Stage, err error) error {
	return &Fault{Culprit: culprit, Round: c.setup.Round, Stage: s, Err: err}
}

// lie blames the aggregator.
func (c *Client) lie(s protocol.Stage, err error) error {
	return c.fault(protocol.Party{Role: protocol.Aggregator}, s, err)
}

func (c *Client) stream(label string) io.Reader {
	return c.party.cfg.Entropy.Stream("secagg/"+label, c.draw)
}
