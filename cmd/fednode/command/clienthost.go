package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/node/ops"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// clientHost is shared by the clients of a process. It holds the data at hand, the experiment that
// all of them are told of, and tables that follow from it. It also knows whose enrolment is valid,
// and whom the operator has revoked.
type clientHost struct {
	*clientCmd // the call
	told       parties
	relays     []admission.Contact // that are dialled; none: the aggregator is
	moved      *admission.Contact  // where the aggregator is by now; nil: where the states say
	noise      client.Samplers
	costs      dp.Cache
	pacing     node.Pacing

	mu      sync.Mutex
	public  []byte
	opened  *experiment.Experiment
	refusal error // why the clients take no part in it
	set     *dataset.Set
	holding map[string]algorithm.PartyData // by the client's state, read again with set
	taken   bool                           // the data came through a pipe, and were read

	declined map[string]error // why clients decline the session, by their states
}

// experiment opens what is public of an experiment, once where it stays the same, and
// says why the clients take no part in it, if so.
func (d *clientHost) experiment(public []byte) (e *experiment.Experiment, refusal, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened != nil && bytes.Equal(d.public, public) {
		return d.opened, d.refusal, nil
	}
	p, err := agreement.Decode(public)
	if err != nil {
		return nil, nil, err
	}
	if e, err = agreement.Open(p); err != nil {
		return nil, nil, err
	}
	d.of(&e.Config)
	d.public, d.opened, d.refusal, d.set = public, e, d.consent.refuses(p), nil
	return e, d.refusal, nil
}

// consented records what a client has consented to, once its ledger has accepted the session.
func (d *clientHost) consented(public []byte, state string, ledger *store.Ledger, log *zerolog.Logger) error {
	e, _, err := d.experiment(public)
	if err != nil {
		return err
	}
	if e.Start != nil {
		warnOmitted(e, ledger.Sessions(), log)
	}
	return consented(e, public, state, &d.consent, log)
}

// declines notes why the client of a state declines the session that there is; nil: it does not.
func (d *clientHost) declines(state string, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.declined, state)
	if why != nil {
		d.declined[state] = why
	}
}

// Check returns why clients of the process decline the session, which keeps them from being ready.
func (d *clientHost) Check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(lists.Map(slices.Sorted(maps.Keys(d.declined)), func(state string) error {
		return fmt.Errorf("%s declines the session: %w", state, d.declined[state])
	})...)
}

// ratings opens the data at hand and reads the lists of ids again, once for a session.
func (d *clientHost) ratings(ctx context.Context, e *experiment.Experiment, at clientSpec, log *zerolog.Logger) (*dataset.Set, algorithm.PartyData, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	set, lists := d.set, d.holding
	if set == nil || d.opened != e {
		told := leftOut{log: log}
		err := d.readable() // a file may be a pipe by now
		if d.taken {
			err = fmt.Errorf("--data %s is a pipe, and was read for another session; start again", d.Data)
		}
		if err != nil {
			return nil, at.holding, err
		}
		d.taken = read.Once(d.Data)
		if set, err = experiment.OpenOwn(ctx, e, d.Data, told.record); err != nil {
			return nil, at.holding, withoutContent(err)
		}
		told.end()
		for _, n := range set.Notices {
			log.Warn().Str("data", d.Data).Msg(n.String())
		}
		if err = told.scale(d.Data, set.Len(), e.Data.Min, e.Data.Max); err != nil {
			return nil, at.holding, err
		}
		specs, err := d.specs()
		if err != nil {
			return nil, at.holding, err
		}
		lists = make(map[string]algorithm.PartyData, len(specs))
		for _, other := range specs {
			lists[other.state] = other.holding
		}
		if d.opened == e {
			d.set, d.holding = set, lists
		}
	}
	holding := lists[at.state]
	if holding.User != at.holding.User { // its ledger counts what one user has spent
		return nil, at.holding, fmt.Errorf("%w: --ids has %q where it had %q when this process started; a client stays with its user. Add users at the end of the list", errOther, holding.User, at.holding.User)
	}
	return set, holding, nil
}

func (d *clientHost) party(ctx context.Context, e *experiment.Experiment, at clientSpec, log *zerolog.Logger) (*experiment.Party, error) {
	if err := atomicfile.RoomForModel(at.state, e.Schedule.Model()); err != nil {
		return nil, err
	}
	set, holding, err := d.ratings(ctx, e, at, log)
	if err != nil {
		return nil, err
	}
	if holding.Names, err = party.AlignedNames(at.state, e); err != nil {
		return nil, err
	}
	if holding.Kept, err = party.ResultItems(at.state, e, log); err != nil {
		return nil, err
	}
	p, err := agreement.Party(e, holding, set)
	if err == nil && p.Ratings == 0 {
		log.Warn().Str("data", d.Data).Msg("they hold no rating of this party to train on: it takes part like all others, with an empty record")
	}
	return p, err
}

// takePart is one client's part in sessions, from its enrolment to its own results.
func (d *clientHost) takePart(ctx context.Context, at clientSpec, monitor *ops.Monitor, workers protocol.Workers, log zerolog.Logger) error {
	f, _, err := party.Of(at.state, at.invitation)
	if err != nil {
		return err
	}
	if err = d.told.check(f); err != nil {
		return err
	}
	m, err := party.Open(ctx, at.state, at.invitation, protocol.Client, d.moved, &log)
	if err != nil {
		return err
	}
	defer m.Close() //nolint:errcheck // all that is in them is durable
	running := &runningAccount{state: at.state, member: m, most: d.MaxEpsilon}
	defer monitor.Own(running.account)()
	for n := 0; err == nil && (n < d.Sessions || d.Sessions == 0); {
		var counts bool
		if counts, err = d.session(ctx, at, m, monitor, workers, log); counts {
			n++
		}
	}
	return err
}

// session is one client's part in the next session that it has not finished. The session does not count if it ended
// before the client came, and without a round of the client.
func (d *clientHost) session(ctx context.Context, at clientSpec, m *party.Member, observer node.Observer, workers protocol.Workers, log zerolog.Logger) (counts bool, err error) {
	here := log.With().Stringer("place", m.Membership.Enrolment.Ticket.Place).Logger()
	m.Workers, m.Observer = workers, observer
	c, err := node.NewClient(node.ClientConfig{Member: m.Member, Ledger: m.Ledger, Entropy: entropy.System(),
		Relays: d.relays, Noise: &d.noise, Costs: &d.costs, Pacing: &d.pacing, TellAffordable: d.TellAffordable,
		Declined: func(why error) { d.declines(at.state, why) },
		Open:     func(public []byte) (*node.Job, error) { return d.job(public, at, m.Ledger, &here) },
	})
	if err != nil {
		return false, err
	}
	leave, err := d.told.join(c.Revoke)
	if err != nil {
		return false, err
	}
	defer leave()
	err = c.RunAndDrain(ctx)
	if counts = c.TookPart(); !counts && (err == nil || errors.Is(err, protocol.ErrNothingReleased)) {
		here.Info().AnErr("model", err).Msg("that session ended before this client came, and does not count as one of its --sessions")
		err = nil
	}
	return counts, err
}

// job makes the job of the client at a state. The owner's consents and the client's results go
// into that state.
func (d *clientHost) job(public []byte, at clientSpec, ledger *store.Ledger, log *zerolog.Logger) (*node.Job, error) {
	e, refusal, err := d.experiment(public)
	if err != nil {
		return nil, err
	}
	job := &node.Job{
		Terms:   terms(e),
		Refusal: cmp.Or(refusal, describedBefore(at.state, e.Session(), public)),
		Agreed:  func(p *protocol.Plan) error { return agreement.CheckPlan(e, p) },
		Train: func(ctx context.Context) (client.Trainer, error) {
			p, err := d.party(ctx, e, at, log)
			if err != nil {
				return nil, err
			}
			log.Info().Int("ratings", p.Ratings).Int("not_in_the_catalogue", p.Skipped-p.Unlisted).Int("of_users_not_listed", p.Unlisted).Msg("training on")
			return p, nil
		},
		Consented: func() error { return d.consented(public, at.state, ledger, log) },
		Keep: func(t client.Trainer) error {
			trained := t.(*experiment.Party) //nolint:errcheck // Train returns no other type
			if c := trained.Clipped(); c.Clipped > 0 {
				log.Warn().Int64("vectors", c.Vectors).Int64("clipped", c.Clipped).Msg("vectors were beyond the bounds that the algorithm declares, and were clipped to them")
			}
			told := log.With().Str("next", d.next(at)).Logger()
			return full(party.KeepResult(trained, public, at.state, e.Session(), &told))
		},
	}
	if e.About().Clients == algorithm.Users {
		job.Worst = func(context.Context) (client.Trainer, error) { return e.LargestParty(job.Agreed) }
	}
	_, job.DropsLate = e.Instance().(algorithm.Stopper)
	if e.Private() {
		job.Budget, job.Limit = &e.Privacy.Budget, d.limit(e.Privacy.Budget)
		job.Ceilings = d.within(e.Privacy.Budget)
		job.Protects = dp.Protection{Unit: algorithm.UnitOf(e.Config), Relation: e.Statement(dp.Result{}).Relation}
	}
	return job, nil
}

// next returns a command that shows the owner of a client the result of its last session. It stands in a log, which has
// no ids.
func (d *clientHost) next(at clientSpec) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	words := []string{"fednode", "recommend", "--state", at.state, "--data", d.Data, "--user", "USER"}
	users := at.holding.User != "" || d.set != nil && len(d.set.UserIDs) > 0
	if e := d.opened; e == nil || e.Data.Profile != nil || !users {
		words = []string{"fednode", "status", "--state", at.state}
	}
	return strings.Join(screen.Quoted(words), " ")
}
