package node

import (
	"context"
	"crypto/ed25519"
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"golang.org/x/time/rate"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// AlignConfig configures a member of an alignment.
type AlignConfig struct {
	Member
	Entropy entropy.Source
	// Kept is the attempt whose result an earlier start kept; zero: none. This member does not know
	// yet whether all others have kept it, too.
	Kept align.Attempt
}

func (c *AlignConfig) role() align.Config {
	seat := align.Server
	if p := c.Membership.Enrolment.Ticket.Place; p.Role == protocol.Client {
		seat = align.SeatOf(p.Client)
	}
	return align.Config{Federation: align.Federation(c.Membership.Federation.Hash()), Seat: seat, Identity: c.Identity.Ed25519(), Entropy: c.Entropy}
}

// AlignParty takes part in an alignment with a list of distinct ids, made up to count with padding. keep has to keep the rows durably: they
// are not sent again. It is called once more if another party is started again meanwhile. AlignParty returns when the server has said that
// all parties keep theirs, or when the context ends.
func AlignParty(ctx context.Context, cfg AlignConfig, ids []string, count int, keep func(*align.Rows) error) error {
	party, err := align.NewParty(cfg.role(), ids, count)
	if err != nil {
		return err
	}
	m := &alignMember{cfg: cfg, role: party, kept: cfg.Kept, tell: rate.Sometimes{Interval: 10 * time.Second}}
	m.after = func() ([]align.Envelope, *align.Ended, error) {
		if have, of := party.Progress(); have > 0 && have < of {
			m.tell.Do(func() { cfg.Log.Info().Int("points", have).Int("of", of).Msg("multiplying") })
		}
		rows := party.Result()
		if rows == nil || rows.Attempt == m.kept {
			return nil, nil, nil
		}
		if err := keep(rows); err != nil {
			return nil, nil, err
		}
		m.kept = rows.Attempt
		return party.Kept(), nil, nil
	}
	return m.run(ctx)
}

// AlignServer leads an alignment. keep has to keep the union durably, and then the server's word that the alignment has ended. earlier is
// that word if an earlier start has kept it; it may be nil.
func AlignServer(ctx context.Context, cfg AlignConfig, earlier *align.Ended, keep func(*align.Union, *align.Ended) error) error {
	server, err := align.NewCollector(cfg.role())
	if err != nil {
		return err
	}
	m := &alignMember{cfg: cfg, role: server, ended: earlier}
	if earlier != nil {
		m.kept = cfg.Kept
	}
	m.after = func() ([]align.Envelope, *align.Ended, error) {
		union := server.Result()
		if union == nil || union.Attempt == m.kept {
			return nil, nil, nil
		}
		if err := keep(union, server.End()); err != nil {
			return nil, nil, err
		}
		m.kept, m.ended = union.Attempt, server.End()
		return nil, m.ended, nil
	}
	return m.run(ctx)
}

type aligningRole interface {
	Hello() align.Hello
	Attempt() align.Attempt
	Join(all []align.Hello, identities []ed25519.PublicKey, run protocol.Runner) ([]align.Envelope, error)
	Take(e *align.Envelope, run protocol.Runner) ([]align.Envelope, error)
}

// alignMember runs a role over a connection to the aggregator.
type alignMember struct {
	cfg      AlignConfig
	role     aligningRole
	after    func() ([]align.Envelope, *align.Ended, error) // what follows when the role has moved on
	kept     align.Attempt                                  // whose result is kept; zero: none
	ended    *align.Ended                                   // what the server has said, if this is the server
	tell     rate.Sometimes                                 // of what is multiplied
	attempts int                                            // how many have begun
}

func (m *alignMember) run(ctx context.Context) error {
	l, err := peer.NewConn(m.cfg.Identity, []admission.Contact{m.cfg.Membership.Contact}, peer.AlignID, m.cfg.Log, m.cfg.over...)
	if err != nil {
		return err
	}
	return l.Keep(ctx, func(_ context.Context, s network.Stream) error { return m.serve(s) })
}

func (m *alignMember) serve(s network.Stream) error {
	peer.Within(s, peer.RegisterTimeout)
	hello := m.role.Hello()
	if err := session.Say(s, &session.Message{Hello: &hello}); err != nil {
		return err
	}
	if m.ended != nil {
		if err := session.Say(s, &session.Message{Ended: m.ended}); err != nil {
			return err
		}
	}
	most := max(session.AlignSize, 2*m.cfg.Registry.Federation().MaxListSize()+(m.cfg.Registry.Federation().Places()+1)*session.NoticeSize)
	for {
		_ = s.SetDeadline(time.Time{}) // parties are awaited for as long as it takes
		c, err := session.Hear(s, most)
		if err != nil {
			return err
		}
		if c.Ended != nil && m.ends(c.Ended) {
			return peer.ErrEnd
		}
		out, err := m.take(c)
		if err != nil {
			return err
		}
		for i := range out {
			_ = s.SetWriteDeadline(time.Now().Add(peer.Patience))
			if err = session.Say(s, out[i]); err != nil {
				return err
			}
		}
	}
}

// ends says whether the end of the attempt whose result is kept has come.
func (m *alignMember) ends(e *align.Ended) bool {
	server, ok := m.cfg.Registry.Holder(admission.ServerPlace)
	return ok && m.kept != (align.Attempt{}) && e.Ends(m.kept, align.Federation(m.cfg.Membership.Federation.Hash()), server.Ed25519())
}

// take returns the answers to a message of the aggregator. An error is fatal, except the errors of
// a list that is not trusted, as elsewhere.
func (m *alignMember) take(c *session.Message) ([]*session.Message, error) {
	var out []align.Envelope
	var err error
	switch {
	case c.Roster != nil:
		out, err = m.roster(c.Roster)
	case c.Envelope != nil:
		out, err = m.role.Take(c.Envelope, m.cfg.Workers)
	case c.Ended != nil: // of an attempt that is none of this member's
	default:
		return nil, session.ErrNotice
	}
	if _, fault := errors.AsType[*align.Fault](err); fault || errors.Is(err, align.ErrAttempts) || errors.Is(err, align.ErrMismatch) {
		return nil, peer.Fatal(err)
	} else if errors.Is(err, errUntrusted) {
		return nil, err
	} else if err != nil {
		m.cfg.Log.Warn().Err(err).Msg("passed over")
	}
	more, end, err := m.after()
	if err != nil {
		return nil, peer.Fatal(err)
	}
	said := lists.Map(append(out, more...), func(e align.Envelope) *session.Message { return &session.Message{Envelope: &e} })
	if end != nil {
		said = append(said, &session.Message{Ended: end})
	}
	return said, nil
}

var errUntrusted = errors.New("node: the aggregator's list is not trusted")

// roster takes who is there. An alignment begins when all are.
func (m *alignMember) roster(r *session.Roster) ([]align.Envelope, error) {
	if r.List == nil {
		m.cfg.Log.Info().Int("there", r.There).Int("of", m.cfg.Registry.Federation().Places()+1).Msg("waiting for the server and all parties")
		return nil, nil
	}
	list, err := session.Trust(m.cfg.Membership, m.cfg.Registry, r.List)
	if err != nil {
		return nil, errors.Join(errUntrusted, err)
	}
	server, ok := list.Holder(admission.ServerPlace)
	if !ok || len(list.Vacant())+len(list.Federation.Retired()) > 0 {
		return nil, errors.New("node: not all places are taken yet")
	}
	before := m.role.Attempt()
	out, err := m.role.Join(r.Hellos, append([]ed25519.PublicKey{server.Ed25519()}, list.Identities()...), m.cfg.Workers)
	if now := m.role.Attempt(); now != before {
		m.attempts++
		m.cfg.Log.Info().Stringer("attempt", now).Int("number", m.attempts).Msg("aligning") // another attempt: a party was started again
	}
	return out, err
}
