package secagg_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

var workers = protocol.Workers(runtime.GOMAXPROCS(0))

// TestScenarios runs the scripts of testdata/dropouts. They go through stage × number of lost clients ×
// graph × mode and, in semi-honest mode, × whether noise is replaced. The number required is ⌈(1-ω)N⌉
// by hand, and so is the quorum of active mode where it is more: max(⌊(n+c)/2⌋+1, ⌈(1-ω)N⌉). The quorum
// is never more than ⌈(1-ω)N⌉ in a plan that has a graph.
//
// In active mode with a sparse graph, which takes more than 500 clients, a client verifies some
// 1,000 signatures over the roster and the survivors: 600,000 for all. So all clients verify in the
// round that loses no client and that the other rounds depart from. In the other rounds every
// hundredth client verifies, and the others take both as verified.
func TestScenarios(t *testing.T) {
	scripts := readScripts(t)
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		s := scripts[name]
		t.Run(name, func(t *testing.T) {
			if s.long {
				effort.LongOnly(t, "so many clients take seconds")
			}
			if strings.HasPrefix(name, "several") {
				effort.NotShort(t, "dozens of rounds")
			}
			p := plan(s.cohort.Clients, releases()...)
			p.Cohort = s.cohort
			p.Releases[1].Noise = protocol.Noise{Kind: s.noise, Variance: 10}
			params := secagg.Params{Mode: s.mode}
			large := s.mode == secagg.Active && !s.complete
			if large {
				params.Beacon = []byte("not to be foreseen")
			}
			h := newHistory(t, p, params)
			if large {
				h.every = 100
			}
			if got := h.choice().Complete; got != s.complete {
				t.Fatalf("the graph is complete: %t", got)
			}
			for _, c := range s.scenarios {
				for name, drops := range c.rounds(h.stages()) {
					t.Run(name, func(t *testing.T) { h.play(t, &c, h.choose(drops)) })
				}
			}
		})
	}
}

// history is a round in which no client is lost. A client answers the same messages with the same
// bytes, so the messages before a loss are reused.
type history struct {
	*federation
	every  int                                      // of so many clients one verifies signatures
	said   [protocol.Stages][]protocol.StageMessage // by client
	opened [protocol.Stages][]protocol.Message      // what a client was handed after the stage
	stood  [protocol.Stages][]*secagg.Client        // the clients after the stage
	// undisturbed is the outcome of the round without a loss, which does not depend on the stage.
	undisturbed protocol.Message
}

func newHistory(t *testing.T, p *protocol.Plan, params secagg.Params) *history {
	t.Helper()
	h := &history{federation: newFederation(t, p, params), every: 1}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range h.inputs {
		h.removals[i] = []protocol.Integers{{}, {Value: make([]int64, p.Releases[1].Len)}}
		for j := range h.removals[i][1].Value {
			h.removals[i][1].Value[j] = rng.Int64N(41) - 20
		}
		for _, v := range h.inputs[i] {
			for j := range v.Value {
				v.Value[j] = rng.Int64N(1<<19) - 1<<18 // 562 of them fit 29 bits
			}
		}
	}
	l := h.lead(t)
	for _, s := range h.stages() {
		h.said[s] = h.answers(t, h.clients, l)
		for _, c := range h.clients {
			h.stood[s] = append(h.stood[s], c.Fork())
		}
		l.hear(h.said[s], nil)
		h.opened[s] = slices.Clone(l.inbox)
	}
	h.undisturbed = l.outcome
	return h
}

// answers returns the clients' answers to the messages of the leader; none for a nil client.
func (h *history) answers(t *testing.T, clients []*secagg.Client, l *leader) []protocol.StageMessage {
	t.Helper()
	out, errs := make([]protocol.StageMessage, len(clients)), make([]error, len(clients))
	workers.Each(len(clients), func(i int) {
		if clients[i] != nil {
			out[i], errs[i] = h.respond(i, clients[i], i%h.every == 0, l.inbox[i], l.survivors)
		}
	})
	for i, err := range errs {
		if err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
	}
	return out
}

// respond is a client's answer to the message that opens a stage. Unless it
// verifies them, it takes the roster's and the quorum's signatures as verified.
func (h *history) respond(i int, c *secagg.Client, verifies bool, in protocol.Message, u1 *protocol.Survivors) (protocol.StageMessage, error) {
	switch in := in.(type) {
	case *protocol.Announce:
		return c.Advertise()
	case *protocol.Roster:
		if verifies {
			return c.Share(in, serial{})
		}
		return c.ShareUnverified(in, serial{})
	case *protocol.Delivery:
		return c.MaskedInput(in, h.inputs[i], serial{})
	case *protocol.Survivors:
		if c.Confirms() {
			return c.Confirm(in)
		}
		if err := c.Check(in, nil, serial{}); err != nil {
			return nil, err
		}
	case *protocol.Quorum:
		check := func() error { return c.CheckUnverified(u1) }
		if verifies {
			check = func() error { return c.Check(u1, in, serial{}) }
		}
		if err := check(); err != nil {
			return nil, err
		}
	case *protocol.Answered:
		return c.Replace(in)
	}
	return c.Unmask(u1, h.removals[i], serial{})
}

// losses says at which stage each lost client is lost.
type losses map[int]protocol.Stage

// at returns the stage at which a client is lost; never, if it survives.
func (l losses) at(client int) int {
	if s, ok := l[client]; ok {
		return int(s)
	}
	return never
}

// during returns the clients that are lost at a stage.
func (l losses) during(stage protocol.Stage) []int {
	var out []int
	for i, s := range l {
		if s == stage {
			out = append(out, i)
		}
	}
	return out
}

// choose picks at random which clients are lost.
func (h *history) choose(drops map[protocol.Stage]int) losses {
	stages := slices.Sorted(maps.Keys(drops))
	lost := make(losses)
	if len(stages) == 0 {
		return lost
	}
	order := rand.New(rand.NewPCG(3, uint64(stages[0]))).Perm(len(h.clients))
	for _, s := range stages {
		for range drops[s] {
			lost[order[len(lost)]] = s
		}
	}
	return lost
}

// play loses clients for good, and compares the outcome with the scenario.
func (h *history) play(t *testing.T, c *scenario, lost losses) {
	switch m := h.losing(t, lost).(type) {
	case *protocol.Result:
		if !c.sums {
			t.Fatalf("a sum over %d/%d, want abort at %s", m.Survivors, m.Answered, c.abort)
		}
		h.compare(t, c.input, lost, m.Survivors)
		h.compare(t, c.noise, lost, m.Answered)
		in := func(s clientSet) func(int) bool { return func(i int) bool { return s.has(lost.at(i)) } }
		if d := cmp.Diff(h.sumOf(in(c.input), in(c.noise)), m.Integers); d != "" {
			t.Errorf("sum (-want +got):\n%s", d)
		}
	case *protocol.Abort:
		few, ok := m.Reason.(*protocol.TooFew)
		if !ok || fmt.Sprintf("%s: %d left, %d required", few.Stage, few.Left, few.Required) != c.abort {
			t.Fatalf("aborted because %v; want %q", m.Reason, c.abort)
		}
		h.refused(t, few.Stage, slices.Collect(maps.Keys(lost)), c.refused)
	default:
		t.Errorf("the round ends with %v", m)
	}
}

// compare holds the size of a set against the number in the script and against the number in the result.
func (h *history) compare(t *testing.T, s clientSet, lost losses, stated int) {
	t.Helper()
	size := 0
	for i := range h.clients {
		if s.has(lost.at(i)) {
			size++
		}
	}
	if size != stated || s.count != 0 && s.count != size {
		t.Errorf("the result states %d clients; the set has %d, the script says %d", stated, size, s.count)
	}
}

// losing returns the outcome of a round that loses clients.
func (h *history) losing(t *testing.T, lost losses) protocol.Message {
	if len(lost) == 0 {
		return h.undisturbed
	}
	l := h.lead(t)
	var clients []*secagg.Client // from the first loss on
	for _, s := range h.stages() {
		said, gone := h.said[s], lost.during(s)
		if clients != nil {
			said = h.answers(t, clients, l)
		}
		l.hear(said, gone)
		if clients == nil && len(gone) > 0 {
			clients = h.forks(s)
		}
		for _, i := range gone {
			clients[i] = nil
		}
		if l.outcome != nil {
			break
		}
	}
	return l.outcome
}

// forks returns the clients as they are after a stage.
func (h *history) forks(after protocol.Stage) []*secagg.Client {
	out := make([]*secagg.Client, len(h.clients))
	for i, c := range h.stood[after] {
		out[i] = c.Fork()
	}
	return out
}

// refused has an aggregator continue although too few are left, and a client that sees it. No client
// hears of the answers to the last stage, so none sees that they are too few.
func (h *history) refused(t *testing.T, stage protocol.Stage, lost []int, message string) {
	t.Helper()
	if stage == h.last() {
		return
	}
	witness := 0
	for slices.Contains(lost, witness) {
		witness++
	}
	u1, _ := h.opened[protocol.StageMaskedInput][witness].(*protocol.Survivors)
	_, err := h.respond(witness, h.stood[stage][witness].Fork(), true, h.without(lost, h.opened[stage][witness]), u1)
	var few *protocol.TooFew
	named := map[string]bool{
		"roster":    stage == protocol.StageAdvertise && errors.Is(err, secagg.ErrRoster),
		"delivery":  errors.As(err, &few) && few.Stage == protocol.StageShare && stage == protocol.StageShare,
		"survivors": stage == protocol.StageMaskedInput && errors.Is(err, secagg.ErrSurvivors),
		"quorum":    stage == protocol.StageConsistency && errors.Is(err, secagg.ErrQuorum),
		"answers":   stage == protocol.StageUnmask && errors.Is(err, secagg.ErrSurvivors),
	}
	if !named[message] {
		t.Errorf("an aggregator that continues after %s is answered with %v; want a client that refuses the %s", stage, err, message)
	}
}

// without is a message that opens a stage, less all that is of the lost.
func (h *history) without(lost []int, m protocol.Message) protocol.Message {
	gone := func(id protocol.ClientID) bool { return slices.Contains(lost, int(id)) }
	left := protocol.NewBitmap(len(h.clients))
	for i := range h.clients {
		if !slices.Contains(lost, i) {
			left.Set(i)
		}
	}
	switch m := m.(type) {
	case *protocol.Roster:
		members := slices.DeleteFunc(slices.Clone(m.Members), func(m protocol.Member) bool { return gone(m.Client) })
		return &protocol.Roster{Round: m.Round, Clients: left.Count(), Members: members}
	case *protocol.Delivery:
		shares := slices.DeleteFunc(slices.Clone(m.Shares), func(s protocol.EncryptedShare) bool { return gone(s.Peer) })
		return &protocol.Delivery{Round: m.Round, Clients: left.Count(), Arrived: left, Shares: shares}
	case *protocol.Survivors:
		return &protocol.Survivors{Round: m.Round, Count: left.Count(), U1: left}
	case *protocol.Answered:
		return &protocol.Answered{Round: m.Round, Count: left.Count(), U2: left}
	case *protocol.Quorum:
		return &protocol.Quorum{Round: m.Round, Signatures: slices.DeleteFunc(slices.Clone(m.Signatures), func(s protocol.Signed) bool { return gone(s.Client) })}
	default:
		return m
	}
}

// leader drives the aggregator's role, which counts who is left. Clients that are lost at the masked input
// are prepared before.
type leader struct {
	t         *testing.T
	role      *aggregator.Aggregator
	now       time.Time
	inbox     []protocol.Message // what each client was handed last
	survivors *protocol.Survivors
	outcome   protocol.Message // for the server
}

func (h *history) lead(t *testing.T) *leader {
	l := &leader{t: t, now: time.Unix(0, 0), inbox: make([]protocol.Message, len(h.clients))}
	l.role = aggregator.New(aggregator.Config{Clients: len(h.clients), StageTimeout: time.Second,
		NewSum: func(s protocol.Setup) (aggregator.Sum, error) {
			a, err := secagg.NewAggregator(s, h.params)
			if err == nil {
				a.Know(h.agreements) // which rounds with other losses share
			}
			return a, err
		}})
	l.feed(protocol.Received{Envelope: protocol.Envelope{From: protocol.Party{Role: protocol.Server}, Message: &protocol.Open{Plan: h.plan}}})
	return l
}

// hear takes the answers of all but the lost, and waits for these in vain.
func (l *leader) hear(said []protocol.StageMessage, lost []int) {
	for i, m := range said {
		if m != nil && !slices.Contains(lost, i) {
			l.feed(protocol.Received{Envelope: protocol.Envelope{From: protocol.ClientParty(protocol.ClientID(i)), Message: m}})
		}
	}
	if len(lost) > 0 {
		l.now = l.now.Add(time.Second)
		l.feed(protocol.Tick{})
	}
}

func (l *leader) feed(in protocol.Input) {
	l.t.Helper()
	eff := l.role.Step(l.now, in)
	for _, e := range eff.Events {
		if e.Kind == protocol.MessageIgnored || e.Kind == protocol.WorkFailed || e.Kind == protocol.PlanRefused {
			l.t.Fatalf("%s, %s: %v", e.Kind, e.Party, e.Err)
		}
	}
	for _, e := range eff.Send {
		if e.To.Role == protocol.Server {
			l.outcome = e.Message
			continue
		}
		if _, ok := e.Message.(*protocol.Proceed); ok {
			continue // the sum has no such stage
		}
		l.inbox[e.To.Client] = e.Message
		if m, ok := e.Message.(*protocol.Survivors); ok {
			l.survivors = m
		}
	}
	for _, e := range eff.Send {
		if m, ok := e.Message.(*protocol.Delivery); ok {
			l.feed(protocol.Received{Envelope: protocol.Envelope{From: e.To, Message: &protocol.Prepared{Round: m.Round}}})
		}
	}
	for _, w := range eff.Work {
		l.feed(w.Do(workers))
	}
}
