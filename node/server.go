package node

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// ServerConfig configures a server.
type ServerConfig struct {
	Member
	// Terms are the terms of the session that is begun or resumed.
	Terms *Terms
	// Experiment is the public part of the experiment. Clients derive the terms from it themselves.
	Experiment []byte
	// Hash stands for Experiment in checkpoints.
	Hash     protocol.Hash
	Strategy server.Durable // before its first round
	// Gather is the time that the server waits for all clients before it begins with the number
	// that a round requires.
	Gather time.Duration
	// MayDecline is the number of clients that may decline the session before its first round. nil: as
	// many as rounds can do without.
	MayDecline *int
	// Knows reports whether the state has a session, in hex, beside the present one. nil: it has every session.
	Knows func(session string) (bool, error)
}

// Outcome is the result of a session.
type Outcome struct {
	Model    []byte
	Attempts server.Attempts
}

// Server is the server's process.
type Server struct {
	process
	cfg       ServerConfig
	role      *server.Server
	driver    *session.Driver
	queue     *peer.Queue
	signed    *session.Signed
	described *session.Descriptor // the content of signed
	answered  bool                // the aggregator has shown the end of the session in its log
	list      admission.Hash      // that it is for
	hub       [16]byte            // the aggregator's life; zero before it was met
	begun     bool
	// skipped is the last round that the log calls skipped, since this state does not know it.
	skipped uint64
	// finished: nothing was left of the session at the start but its end.
	finished bool
	summed   bool                           // a round has released something
	final    atomic.Pointer[protocol.Final] // from the end on; set before it is sent, since the aggregator answers it at once
	draining atomic.Bool                    // no round is opened any more
	ended    context.Context                // ends with the session
	end      context.CancelFunc
}

// NewServer makes a server, at the start of a session or at the checkpoint of it, if
// there is one.
func NewServer(cfg ServerConfig) (*Server, error) {
	s := &Server{cfg: cfg, queue: peer.NewQueue(peer.QueueSize)}
	s.ended, s.end = context.WithCancel(context.Background())
	s.queue.Keeps = true
	err := s.is(&s.cfg.Member, protocol.Server)
	if err != nil {
		return nil, err
	}
	if s.role, err = s.resume(); err != nil {
		return nil, err
	}
	s.role.Wait(s.patience(), s.cfg.Terms.Patience())
	s.finished, s.summed = s.role.Finished(), s.role.Attempts().Released > 0
	s.driver = &session.Driver{
		Role: s.role, Inputs: make(chan protocol.Input), Runner: cfg.Workers, Now: time.Now,
		Persist: s.persist, Send: s.send, Events: s.log,
	}
	s.cfg.Observer.Session(cfg.Terms.Session)
	return s, nil
}

func (s *Server) resume() (*server.Server, error) {
	c, fallback, err := store.LoadCheckpoint(s.cfg.State, s.cfg.Hash)
	if errors.Is(err, store.ErrNoCheckpoint) {
		return server.NewDurable(s.cfg.Strategy, s.cfg.Terms.Session), nil
	}
	if err != nil {
		return nil, err
	}
	if fallback != nil {
		s.cfg.Log.Warn().Err(fallback).Msg("going on from the checkpoint before the newest")
	}
	s.cfg.Log.Info().Uint64("round", c.Round).Msg("resumed")
	return server.Resume(s.cfg.Strategy, protocol.Checkpoint{Session: c.Session, Round: c.Round, State: c.State})
}

// patience is longer than a round takes: all stages at their timeouts, another for what is computed,
// and what the messages of a client take on the slowest line that is not cut.
func (s *Server) patience() time.Duration {
	bytes := 0
	for _, way := range [][2]protocol.Role{{protocol.Aggregator, protocol.Client}, {protocol.Client, protocol.Aggregator}} {
		limits := s.cfg.Terms.Limits(way[0], way[1])
		for _, n := range limits.Bytes {
			bytes += n
		}
	}
	return time.Duration(protocol.Stages+1)*s.cfg.Terms.StageTimeout + peer.Carried(bytes)
}

func (s *Server) persist(records []protocol.Record) error {
	for _, r := range records {
		if c, ok := r.(protocol.Checkpoint); ok {
			if err := store.SaveCheckpoint(s.cfg.State, &store.Checkpoint{Session: c.Session, Round: c.Round, Experiment: s.cfg.Hash, State: c.State}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run leads the session to its end, or until the context ends. protocol.ErrNothingReleased
// is returned where it ends without a model, ErrDeclined where too many clients decline it,
// ErrRefused where the aggregator refuses the session for good.
func (s *Server) Run(ctx context.Context) (*Outcome, error) {
	ctx, cancel := s.untilFailed(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.driver.Run(ctx); err != nil {
			s.fail(fmt.Errorf("node: a checkpoint cannot be kept, and no plan leaves without: %w", err))
		}
	}()
	err := s.conn.Keep(ctx, func(stream context.Context, st network.Stream) error { return s.serve(ctx, stream, st) })
	cause := context.Cause(ctx)
	cancel(nil)
	<-done // no goroutine uses the role now
	if err == nil && bytes.Equal(s.final.Load().Model, protocol.NoModel) {
		return nil, fmt.Errorf("node: %d rounds: %w", s.role.Attempts().Opened, protocol.ErrNothingReleased)
	}
	if err == nil {
		return &Outcome{Model: s.final.Load().Model, Attempts: s.role.Attempts()}, nil
	}
	if cause != nil && !errors.Is(cause, context.Canceled) {
		return nil, cause
	}
	return nil, err
}

// RunAndDrain is Run, but when the context ends the server first takes in the sum of a round that is under way, if that comes
// within a few seconds. It opens no further round: a start again counts the next round as skipped, and no client pays for it.
func (s *Server) RunAndDrain(ctx context.Context) (*Outcome, error) {
	longer, stop := session.Outlive(ctx, func() {
		s.draining.Store(true)
		s.paid.Await()
	})
	defer stop()
	return s.Run(longer)
}

// serve registers, publishes the session when clients have gathered, and carries
// messages.
func (s *Server) serve(ctx, stream context.Context, st network.Stream) error {
	_, _, seen := s.cfg.Receipts.Last()
	w, err := session.Greet(st, s.cfg.Registry, session.Register{Version: peer.ProtocolID, Life: s.life, At: s.driver.Now(), Seen: seen})
	if err != nil {
		return err
	}
	s.met.Meet(w.Life, &s.cfg.Log)
	warnApart(&s.cfg.Log, s.cfg.Observer, s.driver.Now(), w.At)
	if err = s.compare(w.Latest); err != nil {
		return err
	}
	anew, err := s.publish(stream, st, w)
	if err != nil {
		return err
	}
	s.cfg.Observer.Registered(1)
	defer s.cfg.Observer.Registered(-1)
	if s.over() || !anew {
		s.queue.Rewind() // twice is no harm
	} else {
		s.queue.Clear() // of a round that the role gives up now
	}
	switch {
	case !s.begun:
		s.begun = true
		s.driver.Give(ctx, protocol.Start{})
	case anew: // what the aggregator was in the middle of is gone
		s.driver.Give(ctx, protocol.Registered{})
	}
	stop := context.AfterFunc(s.ended, s.queue.End)
	defer stop()
	err = session.Carry(stream, st, s.queue, s.cfg.Terms.Limits(protocol.Aggregator, protocol.Server), nil, func(m protocol.Message) error {
		if f, ok := m.(*protocol.Final); ok {
			return s.logged(f)
		}
		s.heard(m)
		s.driver.Give(ctx, protocol.Received{Envelope: protocol.Envelope{
			From: protocol.Party{Role: protocol.Aggregator}, To: protocol.Party{Role: protocol.Server}, Message: m}})
		return nil
	})
	if s.answered && errors.Is(err, io.EOF) {
		return peer.ErrEnd // the aggregator has read all there was
	}
	return peer.IgnoreEOF(err)
}

// ErrRestored is wrapped by the error of a server whose state lacks what the server has signed. A start again does not change that.
var ErrRestored = errors.New("the state of this server was restored from an older copy")

// compare compares the state with sessions of this server that the aggregator and clients know. The state knows each session, and its end.
// Otherwise it lacks what clients were charged for, and every total that it states would be too small.
func (s *Server) compare(known []session.Latest) error {
	for _, latest := range known {
		name, mine := hex.EncodeToString(latest.Session[:]), s.role.Attempts().Opened
		switch {
		case latest.Session != s.cfg.Terms.Session:
			if s.cfg.Knows == nil {
				continue
			}
			if there, err := s.cfg.Knows(name); err != nil {
				return peer.Fatal(err)
			} else if !there {
				return peer.Fatal(admission.Lasting(fmt.Errorf("node: %w: this server has signed the session %s, which --state does not know. Clients were charged for it, and each total of ε here would be too small. "+
					"Put the newest copy of the state back. If there is none, have the operator revoke this server and invite it again, with an empty --state", ErrRestored, name)))
			}
		case s.begun || s.finished: // it has been compared before, or the end is all that is left
		case latest.Ended:
			return peer.Fatal(admission.Lasting(fmt.Errorf("node: %w: the session %s has ended for the aggregator or a client, and ends after round %d here. Put the newest copy of the state back, or end the session with --abandon: then the next one begins, and the model of this one is lost here",
				ErrRestored, name, mine)))
		case latest.Round > max(mine, s.skipped):
			s.skipped = latest.Round
			s.cfg.Log.Warn().Uint64("known", mine).Uint64("opened", latest.Round).
				Msg("the state of this server was restored from an older copy: the aggregator has had more rounds of this session. They are skipped at once, and count at their full price")
		}
	}
	return nil
}

// over says whether the session has ended here.
func (s *Server) over() bool { return s.final.Load() != nil }

// publish describes the session to the aggregator. It says whether that begins there
// anew: because the aggregator was started again, or the list is another one. Then it
// waits for clients first.
func (s *Server) publish(ctx context.Context, st network.Stream, w *session.Welcome) (anew bool, err error) {
	list, err := session.Trust(s.cfg.Membership, s.cfg.Registry, w.List)
	if err != nil {
		return false, err
	}
	if err = s.sized(list); err != nil {
		return false, err
	}
	_ = st.SetDeadline(time.Time{}) // clients may take their time
	notices := session.Notices(ctx, st, max(2*s.cfg.Registry.Federation().MaxListSize(), session.DescriptorSize))
	if anew = s.hub != w.Life || s.list != list.Hash(); anew {
		if list, err = s.gather(ctx, notices, w, list); err != nil {
			return false, err
		}
		s.described = &session.Descriptor{Federation: s.cfg.Membership.Federation.Hash(), List: list.Hash(), Terms: *s.cfg.Terms, Experiment: s.cfg.Experiment}
		if s.signed, err = session.Sign(s.described, s.cfg.Identity); err != nil {
			return false, err
		}
	}
	peer.Within(st, peer.RegisterTimeout)
	if err = session.Say(st, &session.Message{Publish: s.signed}); err != nil {
		return false, err
	}
	peer.Within(st, peer.RegisterTimeout+s.cfg.Terms.StageTimeout) // in which clients look it over
	for {
		m, err := session.Next(ctx, notices)
		switch {
		case err != nil:
			return false, err
		case m.Declined != nil:
			if err = s.declined(m.Declined); err != nil {
				return false, err
			}
		case m.Ready != nil:
			s.hub, s.list = w.Life, list.Hash()
			return anew, nil
		case m.Welcome == nil: // a notice that was on its way is past
			return false, session.ErrNotice
		}
	}
}

// declined hears how many clients decline the session. It ends the session if no round can come
// about without them, unless rounds have released something. Then the session continues to its end,
// and its results are kept.
func (s *Server) declined(list session.Declined) error {
	cohort := s.cfg.Terms.Cohort
	list = list.Within(cohort.All())
	may := max(0, cohort.All()-cohort.Required()-len(s.cfg.Registry.Federation().Retired())) // places that were given up are lost already
	if m := s.cfg.MayDecline; m != nil && !s.begun {
		may = min(may, *m)
	}
	if err := list.Above(cohort, may); err != nil && !s.summed && !s.over() && !s.finished {
		return peer.Fatal(err)
	}
	s.cfg.Log.Warn().Int("clients", list.Count()).Stringer("reasons", list).Msg("clients decline the session; it continues without them")
	return nil
}

// ErrTooFewClients is wrapped by the error of a server that has waited for clients for as long as it may.
var ErrTooFewClients = errors.New("too few clients have come")

// leastGathering is the shortest time that a server waits for as many clients as a round needs.
const leastGathering = 24 * time.Hour

// gather waits for every client; after a while, as many clients as a round needs are enough. Once
// the session has begun, it counts enrolled clients only, and waits only as long as one of them may
// pause before it dials again. It ends with ErrTooFewClients if even the needed clients do not come
// within a day, or within the time that all rounds may wait if that is longer.
func (s *Server) gather(ctx context.Context, notices <-chan session.Notice, w *session.Welcome, list *admission.List) (*admission.List, error) {
	cohort := s.cfg.Terms.Cohort
	enough, wait := cohort.All()-len(list.Federation.Retired()), s.cfg.Gather
	if s.over() || s.finished {
		return list, nil // no client is needed
	}
	if s.begun {
		enough, wait = max(enough-len(list.Vacant()), cohort.Required()), min(wait, 2*peer.RedialMax)
	}
	patient, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	s.cfg.Log.Info().Int("connected", w.Connected).Int("clients", enough).Msg("waiting for clients")
	text, last := w.List, false
	defer s.cfg.Observer.Waits("")
	for w.Connected < enough {
		s.cfg.Observer.Waits(fmt.Sprintf("waits for clients: %d of %d", w.Connected, enough))
		m, err := session.Next(patient, notices)
		switch {
		case err == nil && m.Welcome == nil:
			return nil, session.ErrNotice
		case err == nil:
			if w = m.Welcome; w.List != nil {
				text = w.List
			}
			if err = s.compare(w.Latest); err != nil {
				return nil, err
			}
		case patient.Err() != nil && ctx.Err() == nil && !last: // with less
			enough, last = cohort.Required(), true
			more := max(s.cfg.Terms.Patience(), leastGathering)
			s.cfg.Log.Warn().Int("connected", w.Connected).Int("clients", enough).Stringer("at_most", more).Msg("not all clients have come; waiting for as many as a round needs")
			patient, cancel = context.WithTimeout(ctx, more)
			defer cancel()
		case patient.Err() != nil && ctx.Err() == nil:
			return nil, peer.Fatal(fmt.Errorf("node: %w: %d are connected, and a round needs %d. Nothing has been charged for this wait. Start the clients, and this server again with the same --state; or end the session with --abandon",
				ErrTooFewClients, w.Connected, enough))
		default:
			return nil, err
		}
	}
	now, err := session.Trust(s.cfg.Membership, s.cfg.Registry, text)
	if err == nil {
		err = s.sized(now)
	}
	return now, err
}

// ErrGrown is wrapped by the error of a server whose federation has other places than its session.
// Started again, the server knows of them.
var ErrGrown = errors.New("the federation has grown")

// sized refuses a session of another epoch than the list. A session that has ended may be.
func (s *Server) sized(list *admission.List) error {
	n, places := s.cfg.Terms.Cohort.All(), list.Federation.Places()
	if n == places || s.over() || s.finished {
		return nil
	}
	return peer.Fatal(fmt.Errorf("node: %w: it has %d places of clients, and the session is for %d. Start this server again", ErrGrown, places, n))
}

// send signs what clients must know to be the server's, and queues it.
func (s *Server) send(list []protocol.Envelope) {
	key := s.cfg.Identity.Ed25519()
	for _, e := range list {
		m, err := e.Message, error(nil)
		switch x := e.Message.(type) {
		case *protocol.Open:
			if s.draining.Load() {
				s.paid.Set(false)
				continue
			}
			s.paid.Set(true)
			p := *x.Plan // the strategy's own stays as it is
			err = protocol.SignPlan(key, &p)
			m = &protocol.Open{Plan: &p}
		case *protocol.Final:
			err = protocol.SignFinal(key, s.cfg.Terms.Session, x)
			s.final.Store(x)
		}
		var b []byte
		if err == nil {
			b, err = wire.AppendFrames(nil, m)
		}
		if err == nil {
			err = s.queue.Add(b)
		}
		if err != nil {
			s.cfg.Log.Error().Err(err).Stringer("kind", e.Message.Kind()).Msg("not sent")
		}
	}
}

// log writes down the events of the role. The end of the session ends the process, once waiting
// messages have been sent. So does work that failed: the role plans nothing any more after it, and
// a start continues from the checkpoint.
func (s *Server) log(events []protocol.Event) {
	session.Report(&s.cfg.Log, s.cfg.Observer, events)
	for _, e := range events {
		switch e.Kind {
		case protocol.SessionEnded:
			s.end()
		case protocol.WorkFailed:
			s.fail(fmt.Errorf("node: the server cannot continue after round %d: %w", e.Round, e.Err))
		default:
		}
	}
}

// heard reports how a round ended, which the role takes without a word.
func (s *Server) heard(m protocol.Message) {
	switch m := m.(type) {
	case *protocol.Result:
		s.summed = true
		s.cfg.Log.Info().Uint64("round", m.Round).Int("survivors", m.Survivors).Msg("sum received")
		s.cfg.Observer.Event(protocol.Event{Kind: protocol.RoundSummed, Round: m.Round, Party: protocol.Party{Role: protocol.Aggregator}})
	case *protocol.Abort:
		session.Report(&s.cfg.Log, s.cfg.Observer, []protocol.Event{
			{Kind: protocol.RoundAborted, Round: m.Round, Party: protocol.Party{Role: protocol.Aggregator}, Err: m.Reason}})
	}
}
