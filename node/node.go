// Package node runs the roles of a federation on separate machines: the client, aggregator and server that the simulator also drives, over
// libp2p (TCP and QUIC, encrypted and authenticated by the transport).
//
// # Connections
//
// Clients and the server dial the aggregator, and no party dials them, so a client behind a NAT opens no port. The aggregator accepts
// streams only from peers on the enrolment list (package admission) and from parties that the operator has invited. An invited party
// connects with the ticket's key, and may do one thing:
//
//	party -> Enrol          its enrolment, redeemed by the ticket's key
//	party <- Ready          it is on the list, durably
//
// From then on it connects with its identity, opens one long-lived stream, and registers on it:
//
//	peer -> Register        who it is, whether it has lost what it knew, and which enrolment list it has
//	peer <- Welcome         registration is acknowledged, here and not by the transport, with the list if it is another
//	peer <- Session         the server's signed description of the session, once there is one
//	peer -> Ready           it has checked that, and takes part
//	peer -> Wait            instead: it has finished that one, and is shown the next
//
// A server whose session is refused is told why (Refused), and whether for good: it then ends. Else, as where the
// list has changed meanwhile, it asks again.
//
// The aggregator tells the server that its session begins (Ready) when the connected
// clients have said that they take part, or after a stage's timeout.
//
// Then the stream carries the messages of package protocol in frames (package wire). A
// stream that breaks is opened again, with growing pauses. If it broke within a plan or the final model, the
// client's next Ready names the bytes that it has, by their number and digest, and it is sent the rest.
//
// # Relays
//
// A relay (package hub) stands between the aggregator and clients that are told to dial it. To them it is the aggregator, except that no
// party enrols with it. It dials the aggregator by a stream of its own:
//
//	relay -> Register       as a relay, whose key the aggregator was given
//	relay <- Welcome        who is enrolled, if it has another list; again when that has changed
//	relay -> Gathered       how many clients are connected, whenever that changes
//	relay <- Session        the server's description, which it checks and shows its clients
//	relay -> Ready          they have looked it over
//	relay -> Wait           instead: it has had the end of that one
//
// Then messages follow in frames: its clients' messages inside of others (protocol.Forward), and which clients come and go
// (protocol.RelayStatus). A client that has lost its relay continues with the next relay in its list. A relay keeps nothing on disk.
//
// # Trust
//
// A client trusts what the operator signed (who may take part) and what the server signed (session, plans and the final model), relayed
// unchanged by the aggregator, and computes itself what a plan costs. A relay could lie like the aggregator, to its own clients. An
// aggregator could withhold revocations, so a client can also get them from the operator directly (Client.Revoke). The aggregator is not
// trusted: the roles check what it sends.
//
// # Durable state
//
// A client's ledger, the state that it trains for itself alone, and the server's checkpoint are on disk before anything that depends on
// them is sent. A client marks a session as finished once its result is on disk. All of a client's state belongs to one identity; a party
// that is enrolled anew starts with a new state. An aggregator keeps who is enrolled, and the end of the last session for clients that come
// later. It may be killed and restarted; that costs the round in progress.
//
// # Resource limits
//
// The aggregator limits connections: per address, of peers that are not authenticated yet, and in total, so that strangers cannot use up
// the room of enrolled peers. Where there are more, the address with the most unknown connections gives way (package peer). For each peer
// it limits connections, streams and memory, how often the peer opens a stream and sends, and how long its messages are. The queue of
// messages to a slow peer is limited in size. Time limits go by the bytes that move: a stream that carries 4 KiB a second is not cut.
package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// Terms are the parameters of a session that all roles use.
type Terms = session.Terms

// Observer receives what happens in a process, for the people who run it.
type Observer = session.Observer

// ErrDeclined is returned where too many clients decline a session.
var ErrDeclined = session.ErrDeclined

// Member is a party's place in its federation, and how its process runs.
type Member struct {
	Identity   admission.PrivateKey
	Membership *admission.Membership
	Registry   *admission.Registry // its own
	// Receipts are of the sessions that the party has finished. The receipt of a session that has ended is added. A client that
	// is shown a finished session waits for the next. nil: none is kept.
	Receipts *store.Receipts
	// State is a folder: of the server's checkpoints, or with a subfolder, made when it is needed, for what a client trains
	// for itself in each session.
	State    string
	Log      zerolog.Logger
	Workers  protocol.Workers
	Observer Observer // nil: none
	// over replaces the transports of the host; none: TCP and QUIC.
	over []libp2p.Option
}

// process is a client's or the server's.
type process struct {
	own    *Member
	conn   *peer.Conn
	life   [16]byte
	met    session.Met
	paid   session.Paid            // a round
	failed context.Context         // ends when the process cannot continue, of that cause
	fail   context.CancelCauseFunc // reports what ends the process, unless something else has
}

// is makes the process of a member with a role. It dials relays in place of the aggregator, if there are any.
func (p *process) is(own *Member, role protocol.Role, relays ...admission.Contact) (err error) {
	if place := own.Membership.Enrolment.Ticket.Place; place.Role != role {
		return fmt.Errorf("%w: the invitation is for the %s", session.ErrRole, place)
	}
	own.Observer, own.Receipts = session.Observing(own.Observer), cmp.Or(own.Receipts, new(store.Receipts))
	p.own, p.life = own, session.NewLife()
	p.failed, p.fail = context.WithCancelCause(context.Background())
	if len(relays) == 0 {
		relays = []admission.Contact{own.Membership.Contact}
	}
	if p.conn, err = peer.NewConn(own.Identity, relays, peer.ProtocolID, own.Log, own.over...); err == nil {
		p.conn.Waits = own.Observer.Waits
	}
	return err
}

// Enrol redeems an invitation for an identity with the aggregator that it names, over a connection on which the party is known by the
// ticket's key. It dials until the aggregator answers or the context ends. A refusal wraps ErrRefused. Doing it again with the same
// identity is no error, so it may be repeated after a crash. over replaces the transports; none: TCP and QUIC.
func Enrol(ctx context.Context, i *admission.Invitation, identity admission.PrivateKey, log zerolog.Logger, over ...libp2p.Option) (*admission.Membership, error) {
	m, err := i.Accept(identity)
	if err != nil {
		return nil, err
	}
	text, err := m.Enrolment.Encode()
	if err != nil {
		return nil, err
	}
	l, err := peer.NewConn(i.Key, []admission.Contact{i.Contact}, peer.EnrolID, log, over...)
	if err != nil {
		return nil, err
	}
	err = l.Keep(ctx, func(_ context.Context, s network.Stream) error {
		peer.Within(s, peer.RegisterTimeout)
		if said := session.Say(s, &session.Message{Enrol: text}); said != nil {
			return said
		}
		switch answer, failed := session.Hear(s, session.NoticeSize); {
		case errors.Is(failed, session.ErrRefused):
			return peer.Fatal(failed)
		case failed != nil:
			return failed
		case answer.Ready == nil:
			return session.ErrNotice
		}
		return peer.ErrEnd
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// clocks are the times of a registration, by two clocks. The dates of charges come from the machine's clock. A client
// compares it with the aggregator's clock.
type clocks struct {
	own   time.Time
	other time.Time // in whole minutes; zero: it is not known
}

// mostApart bounds the difference of the clocks. The shortest period of a ceiling is an hour.
const mostApart = 5 * time.Minute

// check returns an error if a ceiling cannot be kept, since the clock by which charges are dated is wrong. A clock that was put right
// since the registration counts as it is now.
func (c *clocks) check(now time.Time) error {
	d := now.Round(0).Sub(c.other.Add(now.Sub(c.own))) // Sub of two readings ignores that the clock was set
	if c.other.IsZero() || d.Abs() <= mostApart+time.Minute {
		return nil
	}
	return &session.DeclineError{Kind: session.DeclineWaits, Err: fmt.Errorf("node: the clock of this machine, %s, is %s. A --ceiling counts by the dates of charges. "+
		"Set the clock, or have the aggregator's set, and start the client again", now.UTC().Format(time.RFC3339), session.Ahead(d.Round(time.Minute), "the aggregator's"))}
}

// compareClocks takes the time at the aggregator, and tells the owner if charges are dated by a clock that is wrong.
func (c *Client) compareClocks(other time.Time) {
	now := c.now()
	c.clocks = clocks{own: now, other: other}
	warnApart(&c.cfg.Log, c.cfg.Observer, now, other)
	if err := c.clocks.check(now); err != nil {
		c.cfg.Log.Warn().Err(err).Msg("one of two clocks is wrong; a client with a --ceiling declines sessions until they agree")
	}
	if last := c.cfg.Ledger.Latest(); last.After(now.Add(mostApart)) {
		c.cfg.Log.Warn().Time("last_charge", last).Time("now", now).
			Msg("charges of this client's ledger are dated after the present: the clock was ahead then, or is behind now. New charges get the later date, and count towards a --ceiling until its period after that date")
	}
}

// warnApart names the difference of the clocks. The aggregator's is known in whole minutes, so that the difference is known to half a minute.
func warnApart(log *zerolog.Logger, o Observer, now, other time.Time) {
	if other.IsZero() {
		return
	}
	by := now.Sub(other) - 30*time.Second
	o.ClockAhead(by)
	if by.Abs() > session.ClockApart+30*time.Second {
		log.Warn().Str("this_machine", session.Ahead(by, "the aggregator")).Msg("the clock of this machine or of the aggregator is wrong; have both set by NTP")
	}
}

// Revoke applies the operator's newest revocations, which the aggregator could withhold. If they are new, this peer registers again: it
// does not accept a list with that party, and so takes no part in a sum with it. A client leaves the session until the aggregator's list
// is without that party, and the server signs it again then. Run of a peer that is itself revoked ends with admission.ErrRevoked. Older
// revocations than are known are refused, see admission.Registry.
func (p *process) Revoke(v *admission.Revocations) error {
	r := p.own.Registry
	known := r.Revocations()
	out, err := r.Revoke(v)
	for _, e := range out {
		p.own.Log.Warn().Stringer("revoked", e.Ticket.Place).Msg("revoked by the operator")
	}
	now := r.Revocations()
	if gone := now.Check(&p.own.Membership.Enrolment); gone != nil {
		p.fail(fmt.Errorf("this party itself: %w", gone))
	}
	if known.Follows(now) != nil { // a client does not know who is out, since it has a part of the list
		p.conn.Cut()
	}
	return err
}

// untilFailed is a context that ends with an error that was reported.
func (p *process) untilFailed(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(p.failed, func() { cancel(context.Cause(p.failed)) })
	return ctx, cancel
}

// errLogged: the aggregator has logged a session otherwise than it was.
var errLogged = errors.New("node: the log of sessions has this session otherwise than it was")

// meet checks what the aggregator shows of the log of sessions at the end of a session. own is the entry of its beginning as this
// party derives it, and final the end that the server signed. An error is fatal: the party keeps nothing of the session.
func meet(x *store.Receipts, shown []byte, own *protocol.Leaf, final *protocol.Final, aggregator admission.Contact, relayed bool) (*store.Receipt, error) {
	key, err := peer.ContactKey(aggregator)
	if err != nil {
		return nil, peer.Fatal(err)
	}
	r, err := store.ParseReceipt(shown)
	if err != nil {
		return nil, peer.Fatal(err)
	}
	leaf, err := x.Meet(r, key, relayed)
	if err != nil {
		return nil, peer.Fatal(fmt.Errorf("node: %w", err))
	}
	if want, failed := own.Ended(final, leaf.Survivors).Encode(); failed != nil || !bytes.Equal(want, r.Leaf) {
		return nil, peer.Fatal(fmt.Errorf("%w: this party knows it as %s, and its entry is %s", errLogged, want, r.Leaf))
	}
	return r, nil
}

// ErrUnkept is returned when the session has ended and this party cannot write that down, as on a full disk. A start again fetches the end once more.
var ErrUnkept = errors.New("node: the end of the session cannot be kept")

// logged keeps the receipt with which the aggregator answers the end of the session.
func (s *Server) logged(f *protocol.Final) error {
	if !s.over() {
		return session.ErrNotice
	}
	own, err := s.described.Leaf(s.signed, s.cfg.Identity.Public())
	if err != nil {
		return peer.Fatal(err)
	}
	r, err := meet(s.cfg.Receipts, f.Receipt, own, s.final.Load(), s.cfg.Membership.Contact, false)
	if err != nil {
		return err
	}
	if err = s.cfg.Receipts.Add(r, s.cfg.Identity, 0); err != nil {
		return peer.Fatal(fmt.Errorf("%w: %w", ErrUnkept, err)) // dialling again makes no room
	}
	s.answered = true
	return nil
}
