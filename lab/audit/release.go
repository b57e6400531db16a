package audit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// auditor makes the releases of an experiment again and again. The first client holds the unit. If clients take turns,
// it is a client with the most turns. The last of the others collude: an attacker that sees their view takes their
// noise out of every sum, so they are counted and add nothing. The worst attacker knows everything that the others
// send except noise, and takes it out too: they send zero.
type auditor struct {
	e        *experiment.Experiment
	cfg      Config
	attempts []attempt // that ask the unit's client
	noise    string
	released int     // vectors in a run
	sampled  bool    // the unit is in a sample, or not
	counted  bool    // attacks on the runs are measured by counts alone, since samples have no normal curve
	search   *search // whose best run is seen; nil: every run is seen
	measured measured
}

// attempt holds what all runs share of a plan.
type attempt struct {
	plan     *protocol.Plan
	clients  []protocol.ClientID // the honest ones, the unit's first
	samplers *client.Samplers    // the plans of a step share one
	// Of each release, what the unit's client sends while its record is empty, and how far the full record moves that.
	base, shifts [][]int64
	targets      [worlds]target
}

func newAuditor(ctx context.Context, e *experiment.Experiment, c Config) (*auditor, error) {
	n := e.Schedule.Noise()
	a := &auditor{
		e: e, cfg: c, noise: n.Kind.String(), sampled: n.Kind == protocol.PartyNoise,
		counted: slices.ContainsFunc(e.Privacy.Run, func(ev dp.Event) bool { return ev.Mechanism.Sampled() }),
	}
	if a.sampled {
		for _, ev := range e.Privacy.Run {
			a.released += ev.Count
		}
		_, watchable := e.Instance().(algorithm.StepWatcher)
		if !watchable {
			return nil, config.Errorf("the parties of %s noise their own training, and its steps cannot be watched (algorithm.StepWatcher)", e.About().Name)
		}
		return a, nil
	}
	step := e.Schedule.At(1)
	samplers := new(client.Samplers)
	unit := mostTurns(e)
	real, err := emptiedVectors(ctx, e, unit)
	if err != nil {
		return nil, err
	}
	for t := range e.Schedule.Rounds() {
		p := e.Plan(uint64(t) + 1)
		if !p.Setup().Chooses(unit) {
			continue
		}
		if now := e.Schedule.At(uint64(t) + 1); now != step {
			step, samplers = now, new(client.Samplers) // one holds the tables of a few releases
		}
		x := attempt{plan: p, clients: honest(p, unit), samplers: samplers, base: make([][]int64, len(p.Releases)), shifts: make([][]int64, len(p.Releases))}
		empty, full := target{}, target{}
		for i, r := range p.Releases {
			if sent := real[p.Round]; sent != nil {
				empty[r.Name] = sent[i]
			}
			full[r.Name] = worstAgainst(empty[r.Name], r)
			if x.base[i], err = integers(empty[r.Name], r); err == nil {
				x.shifts[i], err = integers(full[r.Name], r)
			}
			if err != nil {
				return nil, err
			}
			for j, v := range x.base[i] {
				x.shifts[i][j] -= v
			}
			a.released++
		}
		x.targets = [worlds]target{empty, full}
		a.attempts = append(a.attempts, x)
	}
	return a, nil
}

// integers returns a vector as a client sends it without noise.
func integers(v protocol.Vector, r protocol.Release) ([]int64, error) {
	if v.Value == nil {
		return make([]int64, r.Len), nil
	}
	q, err := client.Quantize(v, r)
	if err != nil {
		return nil, err
	}
	out := make([]int64, r.Len)
	q.AddTo(out)
	return out, nil
}

// mostTurns is the first of the clients that are asked most often.
func mostTurns(e *experiment.Experiment) protocol.ClientID {
	turns := make([]int, e.Cohort.All())
	for t := range e.Schedule.Rounds() {
		for _, id := range e.Plan(uint64(t) + 1).Setup().Chosen() {
			turns[id]++
		}
	}
	return protocol.ClientID(slices.Index(turns, slices.Max(turns)))
}

// honest returns the honest clients of a round, without the colluding ones: first the unit's, then others of the chosen.
func honest(p *protocol.Plan, unit protocol.ClientID) []protocol.ClientID {
	c := p.Cohort
	others := slices.DeleteFunc(p.Setup().Chosen(), func(id protocol.ClientID) bool { return id == unit })
	return append([]protocol.ClientID{unit}, others[:c.Honest(c.Wanted())-1]...)
}

// views makes all runs of both worlds.
func (a *auditor) views(ctx context.Context) (*[worlds][]view, error) {
	var all [worlds][]view
	for w := range all {
		all[w] = make([]view, a.cfg.Runs)
	}
	errs := make([]error, a.cfg.Runs)
	const batch = 128 // between two looks at the context
	for from := 0; from < len(errs); from += batch {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(batch, len(errs)-from)
		a.cfg.Workers.Each(n, func(i int) {
			pair, err := a.seen(from + i)
			all[0][from+i], all[1][from+i], errs[from+i] = pair[0], pair[1], err
		})
		for i, err := range errs[from : from+n] {
			if err != nil { // the others are of the same kind
				return nil, err
			}
			a.measured.add(&all[0][from+i], &all[1][from+i])
		}
		if a.cfg.Progress != nil {
			a.cfg.Progress(worlds * (from + n))
		}
	}
	return &all, nil
}

// seen returns the attacker's view of one run in both worlds, or of the best run of one search.
func (a *auditor) seen(number int) (pair [worlds]view, err error) {
	if a.search != nil {
		return a.bestRun(number)
	}
	return a.run(strconv.Itoa(number))
}

// run makes all releases of one run in both worlds and returns the attacker's view of each. Both worlds draw the same noise and lose
// the same clients, which changes the law of neither world: [separated] and [measured] then need far fewer pairs than independent runs. The
// runs of a search on samples are compared by counts alone, and are independent.
func (a *auditor) run(number string) (pair [worlds]view, err error) {
	sources := func(party string) entropy.Source { return simulated.New(a.cfg.Seed, "audit/"+number+"/"+party) }
	if !a.sampled && !(a.counted && a.search != nil) {
		return pair, a.release(number, []int{0, 1}, sources, &pair)
	}
	for w := range pair {
		if a.sampled {
			pair[w], err = a.steps(w, sources)
		} else {
			err = a.release(number, []int{w}, func(party string) entropy.Source {
				return simulated.New(a.cfg.Seed, fmt.Sprintf("audit/%d/%s/%s", w, number, party))
			}, &pair)
		}
		if err != nil {
			return pair, err
		}
	}
	return pair, nil
}

// release makes all releases of a run in the given worlds with the same sources. Clients without the unit send the same in every world, so
// they work once.
func (a *auditor) release(number string, in []int, sources func(party string) entropy.Source, pair *[worlds]view) error {
	noise := make([]entropy.Source, a.e.Cohort.Honest(a.e.Cohort.Wanted()))
	for i := range noise {
		noise[i] = sources(fmt.Sprintf("client/%d", i))
	}
	faults := sources("faults")
	for t := range a.attempts {
		x := &a.attempts[t]
		lost, err := a.lose(x.plan.Round, len(noise), faults)
		if err == nil {
			err = a.attempt(x, in, lost, noise, pair)
		}
		if err != nil {
			return fmt.Errorf("audit: run %s, attempt %d: %w", number, t+1, err)
		}
	}
	return nil
}

// party is a client of a run, driven without a network or a clock.
type party struct {
	role *client.Client
	id   protocol.ClientID
}

func (a *auditor) party(i int, x *attempt, t target, src entropy.Source) *party {
	id := x.clients[i]
	return &party{id: id, role: client.New(client.Config{
		ID: id, Session: x.plan.Session, Trainer: t, Entropy: src, Noise: x.samplers,
		NewSum: func(s protocol.Setup) (client.Sum, error) { return secagg.NewIdealClient(s, secagg.DrawClient), nil },
	})}
}

// hear has the client take a message, and returns its answer.
func (p *party) hear(m protocol.Message) (protocol.Message, error) {
	in := protocol.Input(protocol.Received{Envelope: protocol.Envelope{From: protocol.Party{Role: protocol.Aggregator}, To: protocol.ClientParty(p.id), Message: m}})
	for {
		eff := p.role.Step(time.Time{}, in)
		for _, ev := range eff.Events {
			return nil, fmt.Errorf("client %d: %s: %w", p.id, ev.Kind, ev.Err)
		}
		if len(eff.Send) > 0 {
			return eff.Send[0].Message, nil
		}
		if len(eff.Work) != 1 {
			return nil, fmt.Errorf("client %d has no answer to %s", p.id, protocol.Describe(m))
		}
		in = eff.Work[0].Do(protocol.Workers(1))
	}
}

// input has the client send its masked input, as the ideal sum has it: without masks.
func (p *party) input(plan *protocol.Plan) ([]protocol.Integers, error) {
	n := plan.Cohort.Wanted()
	for _, m := range []protocol.Message{&protocol.Announce{Plan: plan}, &protocol.Roster{Round: plan.Round, Clients: n}, &protocol.Delivery{Round: plan.Round, Clients: n}} {
		if _, err := p.hear(m); err != nil {
			return nil, err
		}
	}
	m, err := p.hear(&protocol.Proceed{Round: plan.Round})
	if err != nil {
		return nil, err
	}
	return m.(*protocol.MaskedInput).Vectors, nil
}

// removal has the client take back what survivors leave no need for.
func (p *party) removal(plan *protocol.Plan, survivors int) ([]protocol.Integers, error) {
	m, err := p.hear(&protocol.Survivors{Round: plan.Round, Count: survivors})
	if err != nil {
		return nil, err
	}
	return m.(*protocol.Unmask).Removals, nil
}

// told returns a plan as clients are told of it.
func (a *auditor) told(x *attempt) *protocol.Plan {
	p := *x.plan
	p.Releases = append([]protocol.Release(nil), p.Releases...)
	if a.cfg.mutant.plan != nil {
		a.cfg.mutant.plan(&p)
	}
	return &p
}

// attempt makes the releases of a plan in some worlds and adds them to their views.
func (a *auditor) attempt(x *attempt, in []int, lost []loss, noise []entropy.Source, pair *[worlds]view) error {
	p := a.told(x)
	seen := make([]*adversaryView, len(in))
	for k, w := range in {
		seen[k] = newAdversaryView(x, lost)
		if err := a.hear(a.party(0, x, x.targets[w], noise[0]), p, lost[0], true, seen[k]); err != nil {
			return err
		}
	}
	for i := 1; i < len(noise); i++ {
		if err := a.hear(a.party(i, x, nil, noise[i]), p, lost[i], false, seen...); err != nil {
			return err
		}
	}
	for k, w := range in {
		seen[k].note(&pair[w])
	}
	return nil
}

// hear has a client send its input and its removal, unless the client is lost before, and adds both to each adversaryView.
func (a *auditor) hear(c *party, p *protocol.Plan, lost loss, targets bool, seen ...*adversaryView) error {
	if lost == beforeInput {
		return nil
	}
	input, err := c.input(p)
	if err != nil {
		return err
	}
	for _, s := range seen {
		s.add(inputs, input)
	}
	if lost == afterInput {
		return nil
	}
	told := seen[0].survivors
	if f := a.cfg.mutant.survivors; f != nil {
		told = f(p, told)
	}
	removal, err := c.removal(p, told)
	if err != nil {
		return err
	}
	if f := a.cfg.mutant.removal; f != nil {
		for k := range removal {
			f(input[k].Value, removal[k].Value)
		}
	}
	for _, s := range seen {
		s.takeBack(targets, removal)
	}
	return nil
}

// loss is when a client is lost in an attempt.
type loss uint8

const (
	never loss = iota
	beforeInput
	afterInput // before it takes noise back
)

// lose draws who is lost, as the experiment has clients drop out, and no more than are
// tolerated: with more there is no sum. The unit's client stays: without it there is nothing
// to see.
func (a *auditor) lose(round uint64, honest int, src entropy.Source) ([]loss, error) {
	lost := make([]loss, honest)
	rate, stages := algorithm.Dropout.Value(a.e.Config), a.e.DropoutStages
	left := a.e.Cohort.Wanted() - a.e.Cohort.Required()
	if rate == 0 {
		return lost, nil
	}
	bits := noise.NewBits(src.Stream("lost", round))
	for i := 1; i < honest && left > 0; i++ {
		coin, stage := float64(bits.Uint64()>>11)/(1<<53), stages[bits.Uint64()%uint64(len(stages))]
		if coin >= rate {
			continue
		}
		left--
		lost[i] = afterInput
		if stage <= protocol.StageMaskedInput {
			lost[i] = beforeInput
		}
	}
	return lost, bits.Err()
}
