package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"
	"golang.org/x/time/rate"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// gate logs peers that are neither enrolled nor invited, and connections for which there is no room. Strangers may be many, so
// limiters bound the lines.
func (a *Aggregator) gate() *peer.AllowList {
	text := "turned away: this peer is not enrolled, holds no ticket that was read here, and is no relay. If it is a party of yours, the tickets were not read (SIGHUP), " +
		"or the state of this aggregator has lost its enrolment. If it is a relay, name its key with --relay"
	if a.above != nil {
		text = "turned away: this peer is not on the list of parties that the aggregator has sent to this relay. A party enrols with the aggregator first"
	}
	strangers, full := rate.NewLimiter(rate.Every(10*time.Second), 10), rate.NewLimiter(rate.Every(10*time.Second), 10)
	return &peer.AllowList{Allow: a.admits, TurnedAway: func(c network.Conn) {
		if strangers.Allow() {
			a.cfg.Log.Warn().Stringer("peer", c.RemotePeer()).Stringer("address", c.RemoteMultiaddr()).Msg(text)
		}
	}, NoRoom: func(from multiaddr.Multiaddr, err error) {
		if full.Allow() {
			a.cfg.Log.Warn().Err(err).Stringer("address", from).
				Msg("turned away for lack of room: this party or this address has too many connections, or all addresses together have. A party closes its older connections by itself; many of one address are of strangers, whom a firewall keeps out")
		}
	}}
}

// refuseSecond refuses a server for good if another process of it is connected and still answers: both would lead sessions, and
// clients would pay for the sessions of both. It reports whether it has.
func (a *Aggregator) refuseSecond(c *conn) (bool, error) {
	old := locked.Get(&a.mu, func() *conn { return a.conns[c.place] })
	if old == nil || old.life == c.life || !old.answers(a.ctx) {
		return false, nil
	}
	a.cfg.Log.Error().Stringer("leads", old.stream.Conn().RemoteMultiaddr()).Stringer("refused", c.stream.Conn().RemoteMultiaddr()).
		Msg("a second process has registered as the server and is refused: its state was copied, or it was started twice")
	return true, session.Conclude(c.stream, &session.Message{Refused: "another process of this server is connected and leads the session. This state was copied, or its server was started twice: " +
		"stop one of the two and delete its copy, since clients would pay for the sessions of both", ForGood: true})
}

// answers reports whether the process behind a connection reads a new stream: hosts of libp2p greet each.
func (c *conn) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	s, err := c.stream.Conn().NewStream(ctx)
	if err != nil {
		return false
	}
	defer s.Reset() //nolint:errcheck // nothing is left to be lost
	_ = s.SetDeadline(time.Now().Add(answerTimeout))
	if _, err = s.Write([]byte("\x13/multistream/1.0.0\n")); err == nil {
		_, err = s.Read(make([]byte, 1))
	}
	return err == nil
}

const answerTimeout = 5 * time.Second

// supplant closes a party's older connection in favour of a newer one. If another process holds the newer
// one, both sides learn why. The caller holds mu.
func (a *Aggregator) supplant(old, c *conn) {
	if old.life == c.life {
		old.close()
		return
	}
	select {
	case <-old.closed: // the older process has left
		return
	default:
	}
	old.closeWith(network.StreamSupplanted)
	line := a.cfg.Log.Warn().Stringer("place", c.place)
	for name, x := range map[string]*conn{"older": old, "newer": c} {
		if x.stream != nil {
			line = line.Stringer(name, x.stream.Conn().RemoteMultiaddr())
		}
	}
	line.Msg("another process has registered as this party, whose older process was still connected. If its machine did not just fail, " +
		"two machines run copies of one state: tell the owner to stop one")
}

// StateFiles tells of each file that an aggregator may have beside its registry, which has a list of parties: its name, what says what
// is in it and changes nothing, and what mends an error.
func StateFiles(f *admission.Federation, list *admission.List, tell func(name string, look func(path string) (says string, err error), do string)) {
	const without = "delete it while no aggregator runs: it does without"
	tell(store.SessionFolder, func(path string) (string, error) {
		key, ok := list.Holder(admission.AggregatorPlace)
		if !ok {
			return "", nil // whose signature it has is not known
		}
		s, err := store.ReadSessions(store.ReadFolder(path), key)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("log of sessions with %d entries, signed by the aggregator", len(s.Entries)), nil
	}, "stop the aggregator before another session begins, and put the newest copy of this folder back: see node/losses.md")
	tell(headsFile, func(path string) (string, error) {
		heads, err := store.ReadHeads(path)
		return fmt.Sprintf("latest heads of %d ledgers, each signed by its client", len(heads)), err
	}, without)
	tell(endFile, func(path string) (string, error) {
		e, err := openEnd(path, f, list)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("end of session %s with a model of %d bytes, signed by the server", sessionName(e.descriptor.Terms.Session), len(e.final.Model)), nil
	}, without)
	tell(excludedFile, func(path string) (string, error) {
		var kept exclusions
		err := atomicfile.ReadJSON(path, &kept)
		return fmt.Sprintf("%d clients are excluded from session %s", len(kept.List), sessionName(kept.Session)), err
	}, without)
}

// decline notes a client's answer to a session: a kind of reason, or "" if the client takes part. The server
// is told at its next registration, which follows at once when no round can come about any more. The caller
// holds the aggregator's mu.
func (a *Aggregator) decline(s *hubSession, id protocol.ClientID, kind session.Decline) {
	if kind == "" {
		delete(s.declined, id)
		return
	}
	s.declined[id] = kind.Known()
	a.cfg.Log.Warn().Stringer("client", admission.ClientPlace(id)).Str("reason", string(kind.Known())).Msg("a client declines the session")
	a.cfg.Observer.Event(protocol.Event{Kind: protocol.SessionDeclined, Party: protocol.ClientParty(id), Err: errors.New(string(kind.Known()))})
	a.hopeless(s)
}

// hopeless has the server register again, once, if so many clients decline that no round can come about. The
// caller holds mu.
func (a *Aggregator) hopeless(s *hubSession) {
	if s.hopeless || s.final != nil || a.declinedIn(s).Impossible(s.terms.Cohort) == nil {
		return
	}
	s.hopeless = true
	a.busy.Go(func() { s.driver.Give(s.ctx, protocol.Alone{}) }) // beside, since the driver may wait for mu
	if c := a.conns[admission.ServerPlace]; c != nil && c.in == s && s.asked == nil {
		c.close()
	}
}

// declinedIn counts the clients that decline a session. The caller holds mu.
func (a *Aggregator) declinedIn(s *hubSession) session.Declined {
	out := make(session.Declined)
	for _, kind := range s.declined {
		out[kind]++
	}
	for c, behind := range s.behind {
		if a.conns[c.place] == c {
			for kind, n := range behind {
				out[kind] += n
			}
		}
	}
	return out
}

// endFile is the file in the aggregator's state with the end of its last session. A client that was
// away then finds the final model. It does so even if the server's process has ended and the
// aggregator was started again. The server has signed everything in the file.
const endFile = "ended.json"

type ending struct {
	session.Signed

	Model []byte `json:"model"`
	Final []byte `json:"final"` // the signature of the model

	// Once it was read and verified:
	descriptor *session.Descriptor
	server     admission.PublicKey
	final      *protocol.Final
}

func (a *Aggregator) endPath() string { return filepath.Join(a.cfg.State, endFile) }

// keepFinal keeps the end of a session, durably when it returns: in the log of sessions, unless it is there, and in a file. The final
// message gets its receipt.
func (a *Aggregator) keepFinal(s *hubSession, f *protocol.Final) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s != a.session {
		return nil // another one has begun
	}
	var err error
	if a.log != nil && s.final == nil {
		if err = protocol.VerifyFinal(s.server.Ed25519(), s.terms.Session, f); err == nil {
			err = a.log.Add(s.leaf.Ended(f, s.survivors()))
		}
	}
	for _, c := range a.conns {
		s.sizes = append(s.sizes, c.seen...)
	}
	var frames []byte
	if err == nil {
		frames, err = a.prove(s, f)
	}
	if err == nil {
		err = store.WriteJSON(a.endPath(), &ending{Signed: *s.signed, Model: f.Model, Final: f.Signature})
	}
	if err != nil {
		return err
	}
	s.final = frames
	a.cfg.Observer.Event(protocol.Event{Kind: protocol.SessionEnded, Round: uint64(s.terms.Steps.Rounds()), Party: protocol.Party{Role: protocol.Aggregator}})
	a.tellRelays(s)
	return nil
}

// loadEnd goes back to the end of the last session after a restart. An unusable file is no reason
// not to start: the server, started again, ends the session once more.
func (a *Aggregator) loadEnd() {
	list := a.cfg.Registry.List()
	e, err := openEnd(a.endPath(), a.cfg.Registry.Federation(), list)
	var s *hubSession
	if err == nil {
		s = a.lead(&e.Signed, e.descriptor, e.server, list)
		s.closeAcceptance()
		s.final, err = a.prove(s, e.final)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		a.cfg.Log.Warn().Err(err).Msg("the end of the last session is not shown to clients")
	default:
		a.session = s
		a.cfg.Observer.Session(s.terms.Session)
		a.cfg.Observer.Event(protocol.Event{Kind: protocol.SessionEnded, Round: uint64(s.terms.Steps.Rounds()), Party: protocol.Party{Role: protocol.Aggregator}})
		a.cfg.Log.Info().Hex("session", s.terms.Session[:]).Msg("the last session has ended; its model is there for clients that were away")
	}
}

// openEnd reads the end of a session, and verifies the server's signatures.
func openEnd(path string, f *admission.Federation, list *admission.List) (*ending, error) {
	e, ok := new(ending), false
	err := atomicfile.ReadJSON(path, e)
	if err != nil {
		return nil, err
	}
	e.Ended, e.final = true, &protocol.Final{Model: e.Model, Signature: e.Final}
	if e.server, ok = list.Holder(admission.ServerPlace); !ok {
		err = fmt.Errorf("%w: no party on the list is the server", session.ErrSession)
	}
	if err == nil {
		e.descriptor, err = e.Verify(f, e.server)
	}
	if err == nil {
		err = protocol.VerifyFinal(e.server.Ed25519(), e.descriptor.Terms.Session, e.final)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

// headsFile is the file in the aggregator's state with the latest head of each client's ledger.
const headsFile = "heads.txt"

// compare takes the head with which a client registers, and returns the head that the client is to be shown; nil: none. stale says that the
// client lacks charges that it has signed for, so that it will end.
func (a *Aggregator) compare(owner admission.PublicKey, text []byte) (show []byte, stale bool, err error) {
	head, err := store.OpenHead(text, owner)
	if err != nil {
		return nil, false, err
	}
	kept, ok := a.heads.Of(owner)
	a.keepHead(owner, head)
	if !ok || kept.Chain == head.Chain {
		return nil, false, nil
	}
	return kept.Bytes(), kept.Count >= head.Count, nil
}

// keepHead keeps a head that is verified. That it cannot be written is no reason to stop a round: see Check.
func (a *Aggregator) keepHead(owner admission.PublicKey, head store.Head) {
	if err := a.heads.Keep(owner, head); err != nil {
		a.cfg.Log.Error().Err(err).Msg("the heads of clients' ledgers cannot be kept; see to the disk: until they can, clients that were restored from a copy are not found out after a power failure")
	}
}

// heard keeps the head that comes with a masked input. A head that does not hold is left out: the
// masked input counts all the same, since it is the client that a head protects.
func (a *Aggregator) heard(from admission.Place, m protocol.Message) {
	in, ok := m.(*protocol.MaskedInput)
	if !ok || in.Head == nil {
		return
	}
	owner, ok := a.cfg.Registry.Holder(from)
	if !ok {
		return
	}
	head, err := store.OpenHead(in.Head, owner)
	if err != nil {
		a.cfg.Log.Warn().Err(err).Stringer("place", from).Msg("the head of a ledger is ignored")
		return
	}
	a.keepHead(owner, head)
}

// turnBack shows a client that lacks charges the proof, and ends its registration. A newer process of
// the client may be connected, and stays.
func (a *Aggregator) turnBack(c *conn) error {
	a.cfg.Log.Warn().Stringer("place", c.place).Msg("a client has registered with a ledger older than its own signature shows. " +
		"Its state was restored from an old copy, or two machines run copies of it: it takes part in nothing. Ask its owner; revoke it and invite it again")
	return session.Conclude(c.stream, &session.Message{Welcome: &session.Welcome{Life: a.life, Head: c.newer}})
}

// excludedFile is the file in the aggregator's state with the clients that lied in its
// session, so that a start anew does not let them in again.
const excludedFile = "excluded.json"

type exclusions struct {
	Session protocol.SessionID `json:"session"`
	List    []exclusion        `json:"excluded"`

	mu     sync.Mutex
	unkept error // why the file lacks some of them; nil: it does not
}

// exclusion is a client that lied. Its key is excluded: another client that takes the place later has not lied.
type exclusion struct {
	Client protocol.ClientID   `json:"client"`
	Key    admission.PublicKey `json:"key"`
	Why    string              `json:"why"`
}

func (a *Aggregator) excludedPath() string { return filepath.Join(a.cfg.State, excludedFile) }

// loadExcluded returns the clients of a list that lied in a session before.
func (a *Aggregator) loadExcluded(session protocol.SessionID, list *admission.List) *exclusions {
	out := &exclusions{Session: session}
	var kept exclusions
	if _, err := atomicfile.FindJSON(a.excludedPath(), &kept); err != nil {
		a.cfg.Log.Error().Err(err).Msg("whom the session has excluded is not known any more")
	}
	if kept.Session != session {
		return out
	}
	out.List = slices.DeleteFunc(kept.List, func(x exclusion) bool {
		key, ok := list.Holder(admission.ClientPlace(x.Client))
		return !ok || key != x.Key
	})
	return out
}

// keepExcluded keeps whom the role has excluded, of a list's clients. That it cannot be
// kept is no reason to stop, since it matters after a restart alone: see Check.
func (a *Aggregator) keepExcluded(x *exclusions, list *admission.List, events []protocol.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := len(x.List)
	for _, e := range events {
		if key, ok := list.Holder(admission.Place(e.Party)); ok && e.Kind == protocol.ClientExcluded {
			x.List = append(x.List, exclusion{Client: e.Party.Client, Key: key, Why: e.Err.Error()})
		}
	}
	if len(x.List) == before {
		return
	}
	if x.unkept = store.WriteJSON(a.excludedPath(), x); x.unkept != nil {
		a.cfg.Log.Error().Err(x.unkept).Msg("whom the session has excluded cannot be kept: after a restart it is in again")
	}
}

// Check returns an error if the aggregator cannot keep something that it must know after a restart: its registry, or the clients that its
// session has excluded. It first tries again to keep that. It also returns an error if the session cannot continue, because too many
// clients decline it. nil: all is well.
func (a *Aggregator) Check() error {
	a.mu.Lock()
	s, declined := a.session, error(nil)
	if s != nil && s.final == nil {
		declined = a.declinedIn(s).Impossible(s.terms.Cohort)
	}
	a.mu.Unlock()
	err := errors.Join(a.cfg.Registry.Check(), a.heads.Check(), declined)
	if s == nil {
		return err
	}
	x := s.excluded
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unkept != nil {
		if x.unkept = store.WriteJSON(a.excludedPath(), x); x.unkept != nil {
			err = errors.Join(err, fmt.Errorf("whom the session has excluded cannot be kept: %w", x.unkept))
		}
	}
	return err
}
