package secagg_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/secagg/graph"
)

// column is an index of the number of lost clients.
type column int

const (
	nobody column = iota
	one
	aTenth
	tolerated // ωN
	tooMany   // one more
	columns
)

func (c column) String() string {
	return [...]string{"nobody", "one", "a tenth", "the tolerance", "one too many"}[c]
}

// row holds the outcomes of losing no client, one client, a tenth, the tolerance and one more, at
// one stage.
type row [columns]string

// The dropout matrix: stage × number of lost clients × graph × mode, and in semi-honest mode ×
// whether noise is replaced. A cell u/a is the sum over exactly the u clients whose masked input
// arrived, with the changes of noise of the a clients that answered unmask. A cell left<required is
// a round aborted with too few clients at the row's stage, or, if that is consistency, without a
// quorum. Required is ⌈(1-ω)N⌉ by hand, and so is the quorum where it is more: max(⌊(n+c)/2⌋+1,
// ⌈(1-ω)N⌉). The quorum is never more than ⌈(1-ω)N⌉ in a plan that has a graph.
var matrix = []struct {
	mode     graph.Mode
	noise    protocol.NoiseKind
	cohort   protocol.Cohort
	complete bool
	lost     [columns]int
	cells    [protocol.Stages]row
}{
	{ // t = 11 of 19 neighbours: at the tolerance every client that is left must answer
		mode: graph.SemiHonest, noise: protocol.Split, cohort: protocol.Cohort{Clients: 20, Tolerance: 0.4, Colluders: 0.5}, complete: true,
		lost: [columns]int{0, 1, 2, 8, 9},
		cells: [protocol.Stages]row{
			protocol.StageAdvertise:   {"20/20", "19/19", "18/18", "12/12", "11<12"},
			protocol.StageShare:       {"20/20", "19/19", "18/18", "12/12", "11<12"},
			protocol.StageMaskedInput: {"20/20", "19/19", "18/18", "12/12", "11<12"},
			protocol.StageUnmask:      {"20/20", "20/19", "20/18", "20/12", "11<12"},
		},
	},
	{
		mode: graph.SemiHonest, noise: protocol.Split, cohort: protocol.Cohort{Clients: 60, Tolerance: 0.12, Colluders: 0.05},
		lost: [columns]int{0, 1, 6, 7, 8},
		cells: [protocol.Stages]row{
			protocol.StageAdvertise:   {"60/60", "59/59", "54/54", "53/53", "52<53"},
			protocol.StageShare:       {"60/60", "59/59", "54/54", "53/53", "52<53"},
			protocol.StageMaskedInput: {"60/60", "59/59", "54/54", "53/53", "52<53"},
			protocol.StageUnmask:      {"60/60", "60/59", "60/54", "60/53", "52<53"},
		},
	},
	{
		mode: graph.SemiHonest, noise: protocol.TwoRound, cohort: protocol.Cohort{Clients: 20, Tolerance: 0.4, Colluders: 0.5}, complete: true,
		lost: [columns]int{0, 1, 2, 8, 9},
		cells: [protocol.Stages]row{
			protocol.StageAdvertise:   {"20/20", "19/19", "18/18", "12/12", "11<12"},
			protocol.StageShare:       {"20/20", "19/19", "18/18", "12/12", "11<12"},
			protocol.StageMaskedInput: {"20/20", "19/19", "18/18", "12/12", "11<12"},
			protocol.StageUnmask:      {"20/20", "20/19", "20/18", "20/12", "11<12"},
			protocol.StageReplace:     {"20/20", "20/20", "20/20", "20/20", "11<12"},
		},
	},
	{
		mode: graph.SemiHonest, noise: protocol.TwoRound, cohort: protocol.Cohort{Clients: 60, Tolerance: 0.12, Colluders: 0.05},
		lost: [columns]int{0, 1, 6, 7, 8},
		cells: [protocol.Stages]row{
			protocol.StageAdvertise:   {"60/60", "59/59", "54/54", "53/53", "52<53"},
			protocol.StageShare:       {"60/60", "59/59", "54/54", "53/53", "52<53"},
			protocol.StageMaskedInput: {"60/60", "59/59", "54/54", "53/53", "52<53"},
			protocol.StageUnmask:      {"60/60", "60/59", "60/54", "60/53", "52<53"},
			protocol.StageReplace:     {"60/60", "60/60", "60/60", "60/60", "52<53"},
		},
	},
	{ // t = 13 of 19: again every client that is left must answer
		mode: graph.Active, noise: protocol.Split, cohort: protocol.Cohort{Clients: 20, Tolerance: 0.3, Colluders: 0.25}, complete: true,
		lost: [columns]int{0, 1, 2, 6, 7},
		cells: [protocol.Stages]row{
			protocol.StageAdvertise:   {"20/20", "19/19", "18/18", "14/14", "13<14"},
			protocol.StageShare:       {"20/20", "19/19", "18/18", "14/14", "13<14"},
			protocol.StageMaskedInput: {"20/20", "19/19", "18/18", "14/14", "13<14"},
			protocol.StageConsistency: {"20/20", "20/19", "20/18", "20/14", "13<14"},
			protocol.StageUnmask:      {"20/20", "20/19", "20/18", "20/14", "13<14"},
		},
	},
	{ // about the fewest clients: a roster of 500 would be joined completely, and 501 are required
		mode: graph.Active, noise: protocol.Split, cohort: protocol.Cohort{Clients: 562, Tolerance: 0.11, Colluders: 0.001},
		lost: [columns]int{0, 1, 56, 61, 62},
		cells: [protocol.Stages]row{
			protocol.StageAdvertise:   {"562/562", "561/561", "506/506", "501/501", "500<501"},
			protocol.StageShare:       {"562/562", "561/561", "506/506", "501/501", "500<501"},
			protocol.StageMaskedInput: {"562/562", "561/561", "506/506", "501/501", "500<501"},
			protocol.StageConsistency: {"562/562", "562/561", "562/506", "562/501", "500<501"},
			protocol.StageUnmask:      {"562/562", "562/561", "562/506", "562/501", "500<501"},
		},
	},
}

// everything says whether tests that take long leave nothing out.
func everything() bool { return effort.Long() }

var workers = protocol.Workers(runtime.GOMAXPROCS(0))

// In active mode with a sparse graph, which takes more than 500 clients, a client verifies some
// 1,000 signatures over the roster and the survivors: 600,000 for all. So every hundredth client
// verifies, and the others take both as verified. One aggregator verifies dealt shares, not again
// in each cell with the same shares. With FEDSIM_TEST_LONG every client verifies in the run that
// loses no client and that the other runs depart from, and so does every aggregator. Without it
// four cells are left out besides: one client and a tenth of them lost at advertise and share.
func TestDropoutMatrix(t *testing.T) {
	for _, c := range matrix {
		large := c.mode == graph.Active && !c.complete
		t.Run(fmt.Sprintf("%d clients/%s/%s", c.cohort.Clients, c.mode, c.noise), func(t *testing.T) {
			if c.cohort.Clients > 20 {
				effort.LongOnly(t, "so many clients take seconds")
			}
			if !c.complete {
				effort.NotShort(t, "so many clients take seconds")
			}
			p := plan(c.cohort.Clients, releases()...)
			p.Cohort = c.cohort
			p.Releases[1].Noise = protocol.Noise{Kind: c.noise, Variance: 10}
			params := secagg.Params{Mode: c.mode}
			if large {
				params.Beacon = []byte("not to be foreseen")
			}
			h := newHistory(t, p, params, large)
			if got := h.choice().Complete; got != c.complete {
				t.Fatalf("the graph is complete: %t", got)
			}
			for stage := range protocol.Stages {
				for col, want := range c.cells[stage] {
					dear := large && stage <= protocol.StageShare && (column(col) == one || column(col) == aTenth)
					if want == "" || dear && !everything() {
						continue
					}
					lost := rand.New(rand.NewPCG(3, uint64(stage))).Perm(c.cohort.Clients)[:c.lost[col]]
					t.Run(fmt.Sprintf("%s/%s", stage, column(col)), func(t *testing.T) { h.cell(t, stage, lost, want) })
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
	// dealt are shares that need not be verified again; nil: all need to be.
	dealt map[*protocol.Shares]bool
	// undisturbed is the outcome of the round without a loss, which does not depend on the stage.
	undisturbed protocol.Message
}

func newHistory(t *testing.T, p *protocol.Plan, params secagg.Params, large bool) *history {
	t.Helper()
	h := &history{federation: newFederation(t, p, params), every: 1}
	if large && !everything() {
		h.every = 100
	}
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
	if large {
		h.every = 100
	}
	if large && !everything() {
		h.dealt = make(map[*protocol.Shares]bool)
		for _, m := range h.said[protocol.StageShare] {
			h.dealt[m.(*protocol.Shares)] = true
		}
	}
	return h
}

// known is an aggregator that verifies no shares that another one has.
type known struct {
	*secagg.Aggregator
	dealt map[*protocol.Shares]bool
}

func (k known) Receive(from protocol.ClientID, m protocol.StageMessage) error {
	if s, ok := m.(*protocol.Shares); ok && k.dealt[s] {
		return k.ReceiveUnverified(from, s)
	}
	return k.Aggregator.Receive(from, m)
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

// cell loses clients at a stage, for good.
func (h *history) cell(t *testing.T, stage protocol.Stage, lost []int, want string) {
	switch m := h.losing(t, stage, lost).(type) {
	case *protocol.Result:
		if got := fmt.Sprintf("%d/%d", m.Survivors, m.Answered); got != want {
			t.Errorf("a sum over %s, want %s", got, want)
		}
		if d := cmp.Diff(h.expected(stage, lost), m.Integers); d != "" {
			t.Errorf("sum (-want +got):\n%s", d)
		}
	case *protocol.Abort:
		few, ok := m.Reason.(*protocol.TooFew)
		if !ok || few.Stage != stage || fmt.Sprintf("%d<%d", few.Left, few.Required) != want {
			t.Errorf("aborted because %v; want %s at %s", m.Reason, want, stage)
		}
		h.refused(t, stage, lost)
	default:
		t.Errorf("the round ends with %v, want %s", m, want)
	}
}

// losing returns the outcome of a round that loses clients at a stage.
func (h *history) losing(t *testing.T, stage protocol.Stage, lost []int) protocol.Message {
	if len(lost) == 0 {
		return h.undisturbed
	}
	l := h.lead(t)
	var clients []*secagg.Client // from the loss on
	for _, s := range h.stages() {
		said := h.said[s]
		if clients != nil {
			said = h.answers(t, clients, l)
		}
		if s == stage {
			l.hear(said, lost)
			clients = h.forks(s, lost)
		} else {
			l.hear(said, nil)
		}
		if l.outcome != nil {
			break
		}
	}
	return l.outcome
}

// forks are the clients after a stage, without the lost.
func (h *history) forks(after protocol.Stage, lost []int) []*secagg.Client {
	out := make([]*secagg.Client, len(h.clients))
	for i, c := range h.stood[after] {
		if !slices.Contains(lost, i) {
			out[i] = c.Fork()
		}
	}
	return out
}

// expected adds up plainly: the inputs of all clients except the lost ones whose inputs had not
// arrived, and the changes of noise, with the same exception.
func (h *history) expected(stage protocol.Stage, lost []int) [][]int64 {
	before := func(last protocol.Stage) func(int) bool {
		return func(i int) bool { return stage > last || !slices.Contains(lost, i) }
	}
	return h.sumOf(before(protocol.StageMaskedInput), before(protocol.StageUnmask))
}

// refused has an aggregator continue although too few are left: a client sees for itself. (No
// client hears of the answers to the last stage, so none sees that they are too few.)
func (h *history) refused(t *testing.T, stage protocol.Stage, lost []int) {
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
	named := map[protocol.Stage]bool{
		protocol.StageAdvertise:   errors.Is(err, graph.ErrRoster),
		protocol.StageShare:       errors.As(err, &few) && few.Stage == stage,
		protocol.StageMaskedInput: errors.Is(err, secagg.ErrSurvivors),
		protocol.StageConsistency: errors.Is(err, secagg.ErrQuorum),
		protocol.StageUnmask:      errors.Is(err, secagg.ErrSurvivors),
	}
	if !named[stage] {
		t.Errorf("an aggregator that goes on after %s is answered with %v", stage, err)
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
			return known{a, h.dealt}, err
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
