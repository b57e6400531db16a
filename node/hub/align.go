package hub

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/node/peer"
	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/protocol"
)

// aligning are the members of an alignment that have a stream.
type aligning struct {
	mu      sync.Mutex
	members map[align.Seat]*aligner
	ended   *align.Ended // what the server said last, for who comes later
}

type aligner struct {
	link
	hello align.Hello
}

// tell queues a notice for members; it disconnects a member that takes none.
func tell(c *session.Message, members ...*aligner) error {
	b, err := c.Frame()
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.queue.Add(b) != nil {
			m.close()
		}
	}
	return nil
}

func (a *Aggregator) align(s network.Stream, log zerolog.Logger) error {
	place, ok := a.place(s.Conn().RemotePeer())
	if !ok {
		return session.ErrNotEnrolled // revoked since it connected
	}
	seat := align.Server
	switch place.Role {
	case protocol.Server:
	case protocol.Client:
		seat = align.SeatOf(place.Client)
	default:
		return session.ErrRole
	}
	peer.Within(s, peer.RegisterTimeout)
	first, err := session.Hear(s, session.NoticeSize)
	if err != nil {
		return err
	}
	if first.Hello == nil || first.Hello.Seat != seat {
		return session.ErrNotice
	}
	_ = s.SetDeadline(time.Time{}) // a stream that takes none fails when it is used
	m := &aligner{hello: *first.Hello, link: newLink(s, peer.QueueSize)}
	if err = a.seat(m); err != nil {
		return err
	}
	defer a.unseat(m)
	log.Debug().Stringer("place", place).Msg("aligns")
	wrote := m.write(&a.busy)
	defer func() {
		m.close()
		<-wrote
		m.resets.Wait() // before the stream ends, so that its reason arrives
	}()
	for {
		c, err := session.Hear(s, session.AlignSize)
		if err != nil {
			return err
		}
		if err = a.pass(m, c); err != nil {
			return err
		}
	}
}

// seat puts a member's newest stream in the place of an older one, and tells all who is there.
func (a *Aggregator) seat(m *aligner) error {
	list, _, err := a.cfg.Registry.Text()
	if err != nil {
		return err
	}
	x := &a.aligning
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.members[m.hello.Seat]; old != nil {
		why := network.StreamNoError
		if !bytes.Equal(old.hello.Key, m.hello.Key) { // drawn when a process starts
			why = network.StreamSupplanted
			a.cfg.Log.Warn().Int("seat", int(m.hello.Seat)).Msg("another process aligns as this party, whose older process was still connected. If its machine did not just fail, two machines run copies of one state: tell the owner to stop one")
		}
		old.closeWith(why)
	}
	if x.members == nil {
		x.members = make(map[align.Seat]*aligner)
	}
	x.members[m.hello.Seat] = m
	if x.ended != nil {
		if err = tell(&session.Message{Ended: x.ended}, m); err != nil {
			return err
		}
	}
	r := &session.Roster{There: len(x.members)}
	if len(x.members) == a.cfg.Registry.Federation().Places()+1 {
		r.List = list
		for _, other := range x.members {
			r.Hellos = append(r.Hellos, other.hello)
		}
		slices.SortFunc(r.Hellos, func(a, b align.Hello) int { return int(a.Seat) - int(b.Seat) })
	}
	return tell(&session.Message{Roster: r}, slices.Collect(maps.Values(x.members))...)
}

func (a *Aggregator) unseat(m *aligner) {
	x := &a.aligning
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.members[m.hello.Seat] == m {
		delete(x.members, m.hello.Seat)
	}
}

func (a *Aggregator) pass(from *aligner, c *session.Message) error {
	x := &a.aligning
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case c.Envelope != nil && c.Envelope.From == from.hello.Seat && len(c.Envelope.Sealed) <= align.MaxSealed:
		if to := x.members[c.Envelope.To]; to != nil {
			return tell(c, to)
		}
		return nil
	case c.Ended != nil && from.hello.Seat == align.Server:
		x.ended = c.Ended
		return tell(c, slices.Collect(maps.Values(x.members))...)
	default:
		return fmt.Errorf("%w: not what a member of an alignment says", session.ErrNotice)
	}
}
