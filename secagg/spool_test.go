package secagg_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// shed is a spool that has its pieces apart from the aggregator's memory.
type shed struct {
	mu     sync.Mutex
	size   int
	pieces map[int64][]byte // nil: dropped
	fails  error            // of all pieces
	none   bool             // it forgets what is put
}

func (s *shed) Put(first int64, pieces []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.none || s.fails != nil {
		return s.fails
	}
	for i, p := range slices.Collect(slices.Chunk(pieces, s.size)) {
		s.pieces[first+int64(i)] = bytes.Clone(p)
	}
	return nil
}

func (s *shed) Get(number int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pieces == nil {
		return nil, fs.ErrClosed
	}
	b, ok := s.pieces[number]
	if !ok {
		return nil, errors.New("not put")
	}
	return b, s.fails
}

func (s *shed) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pieces = nil
}

// sheds opens spools, and remembers them.
type sheds struct {
	none   bool
	opened []*shed
}

func (s *sheds) open(_ int64, size int) (secagg.Spool, error) {
	s.opened = append(s.opened, &shed{size: size, none: s.none, pieces: make(map[int64][]byte)})
	return s.opened[len(s.opened)-1], nil
}

func (s *sheds) left() (n int) {
	for _, x := range s.opened {
		if x.pieces != nil {
			n++
		}
	}
	return n
}

// load has the deliveries of the federation loaded, as they are when they are sent.
func (f *federation) load() {
	f.t.Helper()
	for i, d := range f.deliveries {
		if d == nil {
			continue
		}
		if protocol.IsWhole(d) || len(d.Shares) != 0 {
			f.t.Fatalf("the delivery of client %d has %d shares before it is sent", i, len(d.Shares))
		}
		m, err := protocol.Whole(d)
		if err != nil {
			f.t.Fatal(err)
		}
		f.deliveries[i] = m.(*protocol.Delivery)
	}
}

// Shares wait in spools, clients are lost at each stage, and the sum is the plain sum of the others. Nothing is left of
// the spools. Both kinds of sums have them.
func TestSpooledSum(t *testing.T) {
	cohort := protocol.Cohort{Clients: 20, Tolerance: 0.3, Colluders: 0.05}
	for name, p := range map[string]*protocol.Plan{"one sum": plan(20, releases()...), "noise replaced": replacing(cohort)} {
		p.Cohort = cohort
		f := newFederation(t, p, secagg.Params{})
		var s sheds
		f.aggregator.SpoolTo(0, s.open)
		f.change()
		for _, stage := range f.stages() {
			if stage == protocol.StageMaskedInput {
				f.load()
			}
			f.lose(int(stage), 1)
			if err := f.stage(stage); err != nil {
				t.Fatal(name, err)
			}
		}
		in := func(i int) bool { return f.alive[i] || i > int(protocol.StageMaskedInput) }
		changed := func(i int) bool { return f.alive[i] || i > int(protocol.StageUnmask) }
		want := f.sumOf(in, changed)
		got, err := f.aggregator.Sum(serial{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
		if len(s.opened) < 2 || s.left() > 0 {
			t.Errorf("%s: %d of %d spools are left", name, s.left(), len(s.opened))
		}
	}
}

// A spool that fails ends the round. No client is blamed, whose message was good.
func TestSpoolFails(t *testing.T) {
	broken := errors.New("broken")
	for _, at := range []protocol.Stage{protocol.StageShare, protocol.StageUnmask} {
		f := newFederation(t, plan(20, releases()...), secagg.Params{})
		var s sheds
		f.aggregator.SpoolTo(0, s.open)
		for _, stage := range f.stages() {
			if stage == protocol.StageMaskedInput {
				f.load()
			}
			if stage < at {
				if err := f.stage(stage); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, x := range s.opened {
			x.fails = broken
		}
		m, err := f.answer(at, 3)
		if err != nil {
			t.Fatal(err)
		}
		err = f.aggregator.Receive(3, m.(protocol.StageMessage))
		var fault *secagg.Fault
		if !errors.Is(err, broken) || errors.As(err, &fault) {
			t.Errorf("%s: %v; want the spool's error, and no client named", at, err)
		}
		if err = f.aggregator.Close(at); !errors.Is(err, broken) {
			t.Errorf("%s is closed with %v", at, err)
		}
	}
	f := newFederation(t, plan(20, releases()...), secagg.Params{})
	f.aggregator.SpoolTo(0, func(int64, int) (secagg.Spool, error) { return nil, broken })
	if err := f.stage(protocol.StageAdvertise); !errors.Is(err, broken) {
		t.Errorf("a round begins without room for its shares: %v", err)
	}
}

// A delivery that was not sent while its stage lasted is of no use any more.
func TestLateDelivery(t *testing.T) {
	f := newFederation(t, plan(20, releases()...), secagg.Params{})
	var s sheds
	f.aggregator.SpoolTo(0, s.open)
	f.through(protocol.StageShare)
	late := f.deliveries[7]
	f.load()
	if err := f.stage(protocol.StageMaskedInput); err != nil {
		t.Fatal(err)
	}
	if _, err := protocol.Whole(late); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a late delivery is made: %v", err)
	}
}

// made plays very many clients of a round. The aggregator checks only the form of their messages.
type made struct {
	t          testing.TB
	plan       *protocol.Plan
	degree     int
	random     *rand.ChaCha8
	rosters    []protocol.Message
	deliveries []protocol.Message
}

func makeClients(t testing.TB, n int) *made {
	t.Helper()
	p := plan(n, exact("V", 8, 32))
	p.Cohort = protocol.Cohort{Clients: n, Tolerance: 0.3, Colluders: 0.05}
	choice, err := secagg.Params{Rounds: 1}.Graph(p.Setup()).Choose()
	if err != nil {
		t.Fatal(err)
	}
	return &made{t: t, plan: p, degree: choice.Degree, random: rand.NewChaCha8([32]byte{1})}
}

func (m *made) key() (k protocol.Key) {
	_, _ = m.random.Read(k[:])
	return k
}

// through has all clients answer all stages to the masked input, and returns the aggregators. Each is given the same.
func (m *made) through(aggregators ...*secagg.Aggregator) {
	m.t.Helper()
	each := func(stage protocol.Stage, message func(id protocol.ClientID) protocol.StageMessage) {
		m.t.Helper()
		for id := range protocol.ClientID(m.plan.Cohort.Clients) {
			x := message(id)
			for _, a := range aggregators {
				if err := a.Receive(id, x); err != nil {
					m.t.Fatal(err)
				}
			}
		}
		for _, a := range aggregators {
			if err := a.Close(stage); err != nil {
				m.t.Fatal(err)
			}
		}
	}
	for _, a := range aggregators {
		if err := a.Begin(m.plan); err != nil {
			m.t.Fatal(err)
		}
	}
	each(protocol.StageAdvertise, func(protocol.ClientID) protocol.StageMessage {
		return &protocol.Advertise{Round: m.plan.Round, Keys: &protocol.Keys{Mask: m.key(), Channel: m.key()}}
	})
	m.rosters = m.next(protocol.StageAdvertise, aggregators[0])
	each(protocol.StageShare, func(id protocol.ClientID) protocol.StageMessage {
		r, err := protocol.Whole(aggregators[0].Next(protocol.StageAdvertise, id))
		if err != nil {
			m.t.Fatal(err)
		}
		out := &protocol.Shares{Round: m.plan.Round}
		for _, x := range r.(*protocol.Roster).Members {
			if x.Client != id {
				sealed := make([]byte, 80)
				_, _ = m.random.Read(sealed)
				out.Shares = append(out.Shares, protocol.EncryptedShare{Peer: x.Client, Ciphertext: sealed})
			}
		}
		return out
	})
	m.deliveries = m.next(protocol.StageShare, aggregators[0])
}

// next returns what opens the next stage for each client.
func (m *made) next(stage protocol.Stage, a *secagg.Aggregator) []protocol.Message {
	out := make([]protocol.Message, m.plan.Cohort.Clients)
	for id := range out {
		out[id] = a.Next(stage, protocol.ClientID(id))
	}
	return out
}

// The rosters and deliveries of a large federation that are made when they are sent are the messages that are made at once.
func TestLateMessagesAreTheSame(t *testing.T) {
	effort.NotShort(t, "sums of many clients")
	m := makeClients(t, 600)
	params := secagg.Params{Rounds: 1}
	early, err := secagg.NewAggregator(m.plan.Setup(), params)
	if err != nil {
		t.Fatal(err)
	}
	late, err := secagg.NewAggregator(m.plan.Setup(), params)
	if err != nil {
		t.Fatal(err)
	}
	var s sheds
	late.SpoolTo(0, s.open)
	m.through(early, late)
	for _, stage := range []protocol.Stage{protocol.StageAdvertise, protocol.StageShare} {
		for id := range protocol.ClientID(m.plan.Cohort.Clients) {
			now, waits := early.Next(stage, id), late.Next(stage, id)
			whole, err := protocol.Whole(waits)
			if err != nil || protocol.IsWhole(waits) || !protocol.IsWhole(now) || !reflect.DeepEqual(whole, now) {
				t.Fatalf("what opens the stage after %s for client %d differs (%v)", stage, id, err)
			}
		}
	}
}

// An aggregator whose shares are in spools takes less than 2 kB of memory a client, so that a million clients take less
// than 2 GB. The messages that wait to be sent to all of them are counted.
func TestMemoryOfSpooledShares(t *testing.T) {
	effort.NotShort(t, "sums of many clients")
	const n = 1500
	perClient := func(spooled bool) float64 {
		m := makeClients(t, n)
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a, err := secagg.NewAggregator(m.plan.Setup(), secagg.Params{Rounds: 1})
		if err != nil {
			t.Fatal(err)
		}
		s := sheds{none: true} // it counts as disk
		if spooled {
			a.SpoolTo(0, s.open)
		}
		m.through(a)
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(a)
		runtime.KeepAlive(m)
		return (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / n
	}
	in, out := perClient(false), perClient(true)
	t.Logf("%.0f bytes a client in memory, %.0f with spools", in, out)
	if out > 2000 || in < 5*out {
		t.Errorf("%.0f bytes a client in memory, %.0f with spools; want at most 2,000", in, out)
	}
}

// BenchmarkDelivery makes one client's delivery from shares that wait, of 100 neighbours.
func BenchmarkDelivery(b *testing.B) {
	m := makeClients(b, 2000)
	a, err := secagg.NewAggregator(m.plan.Setup(), secagg.Params{Rounds: 1})
	if err != nil {
		b.Fatal(err)
	}
	var s sheds
	a.SpoolTo(0, s.open)
	m.through(a)
	b.ReportMetric(float64(m.degree), "k")
	for i := 0; b.Loop(); i++ {
		if _, err := protocol.Whole(m.deliveries[i%len(m.deliveries)]); err != nil {
			b.Fatal(err)
		}
	}
}
