package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/ops"
	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/protocol"
)

// clientCmd is fednode client: one party, or several users of one process.
type clientCmd struct {
	Data string `required:"" placeholder:"DATA" help:"The party's ratings: a folder, zip archive or file, as for fedsim run. They stay here."`
	reading
	User       string `placeholder:"ID" help:"Whose of these ratings; needed where they are of several users."`
	Part       int    `placeholder:"K" help:"Between organisations: which part, from 1 on, of the ratings of all is this party's. Default: all that are at hand."`
	Invitation string `placeholder:"FILE" help:"The party's invitation; needed once."`

	Users       string `placeholder:"A..B" help:"Take part as the clients A to B, for the users at these places of --ids, from 0 on; each has a folder of its own in the state."`
	IDs         string `name:"ids" placeholder:"FILE" help:"Ids, one a line, that do not follow from ratings. With --users those of all users, client k being the one on line k+1 (default: users.txt beside the data). Between organisations those of the items (vfl) or users (hfl) that are the party's, or with --part (hfl) of all users."`
	Invitations string `placeholder:"DIR" help:"With --users: where the invitations are, client-A.json to client-B.json."`

	MaxEpsilon     float64  `default:"10" placeholder:"E" help:"The most that all sessions of this state together may cost; a server that asks for more is refused. inf: anything, sums without noise too."`
	MaxDelta       float64  `default:"1e-05" placeholder:"D" help:"The largest delta at which that is counted: with a larger one a small epsilon promises little."`
	Ceiling        []string `sep:"none" placeholder:"E/PERIOD" help:"The most that the sessions within any period of that length may cost, beside --max-epsilon: 2/30d is 2 in any 30 days; 12h and 52w are periods, too. May be repeated."`
	TellAffordable bool     `help:"A client that declines a session for its cost also says which of 20, 10, 5, 2, 1, 0.5, 0.2 and 0.1 it could afford. The aggregator learns that of this client, the server how many clients there are of each."`

	RequireMode  string  `enum:"semi-honest,active" default:"semi-honest" help:"What sums must defend against at the least: in a session in mode semi-honest, an aggregator that lies can learn this client's contribution with hardly any noise. active: refuse such sessions."`
	MinColluders float64 `default:"0.01" placeholder:"SHARE" help:"The least share of clients that a session must reckon with pooling what they see with the aggregator; any above 0 is one client at the least. 0: agree to an epsilon that counts on every other client to be honest."`
	Unit         string  `enum:"user,rating,any" default:"user" help:"What a session must protect: user (all ratings of one), rating (one of them, of which a user has many), or any."`
	Experiment   string  `placeholder:"FILE" help:"The experiment that the client agrees to, written like the server's: a session of any other is refused. Default: any within --max-epsilon and --max-delta."`

	Relay []string `sep:"none" placeholder:"MULTIADDR" help:"Where a relay is, as it prints it, /p2p/ and its name included, or the aggregator itself: dialled in its place; may be repeated. Clients begin with different ones, and go on with the next when a connection fails. Enrolling takes the aggregator all the same."`

	Revocations string `placeholder:"FILE" help:"Whom the operator has revoked, from the operator itself: an aggregator could hold it back. Read again on SIGHUP; may be missing."`

	Sessions int `default:"1" placeholder:"N" help:"How many sessions it takes part in, one after another, before it ends; 0: until it is stopped. One that this state has finished does not count: it waits for the next."`

	Check bool   `help:"Open data, ids and, with --items, the list of items; say what would be trained on, and end. The client does not enrol and sends nothing. --experiment adds the scale."`
	Items string `placeholder:"DIR" help:"With --check: folder with the list of items of the session, as for fednode server."`
	Empty bool   `help:"Take part with empty records although the data have ratings and none of the users of --users."`

	State string `placeholder:"DIR" help:"Needed, except with --check: where identity, membership and privacy ledger are kept; made if it is missing. Never restore it from a backup: it knows what was spent."`
	Ops   string `placeholder:"ADDRESS" help:"Address on this machine of metrics, health and status, like 127.0.0.1:9466. Default: nowhere."`
}

// clientSpec holds the arguments for one client of the process.
type clientSpec struct {
	state, invitation string
	holding           algorithm.PartyData
}

// Run implements fednode client.
func (c *clientCmd) Run(ctx context.Context, s streams) error {
	log := s.log("client")
	specs, err := c.specs()
	if err != nil {
		return err
	}
	consent, err := c.consent()
	if err != nil {
		return err
	}
	if err = c.reading.check(); err != nil {
		return err
	}
	if c.Sessions < 0 {
		return cli.Misusef("--sessions %d: a number above 0 is needed, or 0 for all that there will be", c.Sessions)
	}
	if c.State == "" && !c.Check || c.Items != "" && !c.Check {
		return cli.Misusef("--state is needed, and --items goes with --check")
	}
	relays, err := contactsOf("--relay", c.Relay)
	if err != nil {
		return err
	}
	done, err := c.prepare(ctx, specs, consent, s, &log)
	if done || err != nil {
		return err
	}
	monitor, stop, err := monitored(ctx, "client", c.Ops, &log)
	if err != nil {
		return err
	}
	defer stop()
	workers := max(1, runtime.GOMAXPROCS(0)/len(specs))
	common := &clientHost{data: c.Data, reading: c.reading, consent: consent, told: parties{path: c.Revocations}, sessions: c.Sessions, relays: relays, list: c.specs, declined: make(map[string]error)}
	monitor.Check(common.Check)
	defer common.told.follow(ctx, &log)()
	errs := make([]error, len(specs))
	var all sync.WaitGroup
	for i, at := range specs {
		all.Go(func() {
			err := common.takePart(ctx, at, monitor, protocol.Workers(workers), log)
			if err == nil || len(specs) == 1 {
				errs[i] = err
				return
			}
			if !errors.Is(err, context.Canceled) {
				log.Error().Err(err).Str("state", at.state).Msg("this client has failed") // the others may continue for long
			}
			errs[i] = fmt.Errorf("%s: %w", at.state, err)
		})
	}
	all.Wait()
	return outcome(errs)
}

// outcome joins the outcomes of several clients. If some failed, it leaves out the stopped clients.
func outcome(errs []error) error {
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return errors.Is(err, context.Canceled) })
	return cmp.Or(errors.Join(failed...), errors.Join(errs...))
}

// specs are the clients that the process is to be.
func (c *clientCmd) specs() ([]clientSpec, error) {
	if c.Users == "" {
		if c.Invitations != "" {
			return nil, cli.Misusef("--invitations goes with --users; one client has an --invitation")
		}
		which := algorithm.PartyData{User: c.User, Part: c.Part}
		if c.IDs != "" {
			var err error
			if which.IDs, err = readIDs(c.IDs); err != nil {
				return nil, misused("--ids", err)
			}
		}
		return []clientSpec{{c.State, c.Invitation, which}}, nil
	}
	if c.User != "" || c.Part != 0 || c.Invitation != "" || c.Invitations == "" {
		return nil, cli.Misusef("--users goes with --invitations, and without --user, --part and --invitation")
	}
	first, last, ok := strings.Cut(c.Users, "..")
	from, err1 := strconv.ParseUint(first, 10, 32)
	to, err2 := strconv.ParseUint(last, 10, 32)
	if !ok || err1 != nil || err2 != nil || from > to || to >= admission.MaxClients {
		return nil, cli.Misusef("--users %s: two numbers are needed, like 0..19, the first not above the last", c.Users)
	}
	ids, err := c.allUsers()
	if err != nil {
		return nil, err
	}
	if to >= uint64(len(ids)) {
		return nil, cli.Misusef("--users %s: the list has %d ids; its last place is %d", c.Users, len(ids), len(ids)-1)
	}
	var list []clientSpec
	for k := from; k <= to; k++ {
		name := invitationFile(admission.ClientPlace(protocol.ClientID(k)))
		list = append(list, clientSpec{filepath.Join(c.State, strings.TrimSuffix(name, ".json")), filepath.Join(c.Invitations, name), algorithm.PartyData{User: ids[k]}})
	}
	return list, nil
}

// clientHost is shared by the clients of a process. It holds the data at hand, the experiment that
// all of them are told of, and tables that follow from it. It also knows whose enrolment is valid,
// and whom the operator has revoked.
type clientHost struct {
	data     string
	reading  reading
	consent  *consent
	told     parties
	sessions int                          // that each takes part in; 0: until the process is stopped
	list     func() ([]clientSpec, error) // reads the lists of ids again; nil: they stay
	relays   []admission.Contact          // that are dialled; none: the aggregator is
	noise    client.Samplers
	costs    dp.Cache
	pacing   node.Pacing
	verified admission.Verified

	mu      sync.Mutex
	public  []byte
	opened  *experiment.Experiment
	refusal error // why the clients take no part in it
	set     *dataset.Set
	holding map[string]algorithm.PartyData // by the client's state, read again with set

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
	d.reading.of(e)
	d.public, d.opened, d.refusal, d.set = public, e, d.consent.refuses(p), nil
	return e, d.refusal, nil
}

// consented records what a client has consented to, once its ledger has accepted the session.
func (d *clientHost) consented(public []byte, state string, log *zerolog.Logger) error {
	e, _, err := d.experiment(public)
	if err != nil {
		return err
	}
	return consented(e, state, d.consent, log)
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
	var errs []error
	for _, state := range slices.Sorted(maps.Keys(d.declined)) {
		errs = append(errs, fmt.Errorf("%s declines the session: %w", state, d.declined[state]))
	}
	return errors.Join(errs...)
}

// ratings opens the data at hand and reads the lists of ids again, once for a session.
func (d *clientHost) ratings(ctx context.Context, e *experiment.Experiment, at clientSpec, log *zerolog.Logger) (*dataset.Set, algorithm.PartyData, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	set, lists := d.set, d.holding
	if set == nil || d.opened != e {
		told := leftOut{log: log}
		var err error
		if set, err = experiment.OpenOwn(ctx, e, d.data, told.record); err != nil {
			return nil, at.holding, err
		}
		told.end()
		for _, n := range set.Notices {
			log.Warn().Str("data", d.data).Msg(n.String())
		}
		if err = told.scale(d.data, set.Len(), e.Data.Min, e.Data.Max); err != nil {
			return nil, at.holding, err
		}
		if lists, err = d.again(); err != nil {
			return nil, at.holding, err
		}
		if d.opened == e {
			d.set, d.holding = set, lists
		}
	}
	holding, read := lists[at.state]
	switch {
	case !read:
		return set, at.holding, nil
	case holding.User != at.holding.User: // its ledger counts what one user has spent
		return nil, at.holding, fmt.Errorf("%w: --ids has %q where it had %q when this process started; a client stays with its user. Add users at the end of the list", errOther, holding.User, at.holding.User)
	}
	return set, holding, nil
}

// again reads the lists of ids, by the client's state.
func (d *clientHost) again() (map[string]algorithm.PartyData, error) {
	if d.list == nil {
		return nil, nil
	}
	specs, err := d.list()
	if err != nil {
		return nil, err
	}
	lists := make(map[string]algorithm.PartyData, len(specs))
	for _, at := range specs {
		lists[at.state] = at.holding
	}
	return lists, nil
}

// party makes a client's party from the data at hand.
func (d *clientHost) party(ctx context.Context, e *experiment.Experiment, at clientSpec, log *zerolog.Logger) (*experiment.Party, error) {
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
		log.Warn().Str("data", d.data).Msg("they hold no rating of this party to train on: it takes part like all others, with an empty record")
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
	m, err := party.Open(ctx, at.state, at.invitation, protocol.Client, &log)
	if err != nil {
		return err
	}
	defer m.Close() //nolint:errcheck // all that is in them is durable
	m.Registry.Share(&d.verified)
	running := &runningAccount{state: at.state, member: m, most: d.consent.epsilon}
	defer monitor.Own(running.account)()
	for n := 0; err == nil && (n < d.sessions || d.sessions == 0); {
		var counts bool
		if counts, err = d.session(ctx, at, m, monitor, workers, log); counts {
			n++
		}
	}
	return err
}

// session is one client's part in the next session that it has not finished. The session does not count if it ended
// before the client came, and without a round of the client.
func (d *clientHost) session(ctx context.Context, at clientSpec, m *party.Member, observer session.Observer, workers protocol.Workers, log zerolog.Logger) (counts bool, err error) {
	here := log.With().Stringer("place", m.Membership.Enrolment.Ticket.Place).Logger()
	c, err := node.NewClient(node.ClientConfig{
		Identity: m.Identity, Membership: m.Membership, Registry: m.Registry, Ledger: m.Ledger, Finished: m.Finished, State: at.state, Entropy: entropy.System(),
		Log: log, Workers: workers, Observer: observer, Relays: d.relays, Noise: &d.noise, Costs: &d.costs, Pacing: &d.pacing, Declined: func(why error) { d.declines(at.state, why) }, TellAffordable: d.consent.tells,
		Open: func(public []byte) (*node.Job, error) { return d.jobAt(public, at, &here) },
	})
	if err != nil {
		return false, err
	}
	leave, err := d.told.join(c, &m.Membership.Federation)
	if err != nil {
		return false, err
	}
	defer leave()
	err = c.Run(ctx)
	if counts = c.TookPart(); !counts && (err == nil || errors.Is(err, protocol.ErrNothingReleased)) {
		here.Info().AnErr("model", err).Msg("that session ended before this client came, and does not count as one of its --sessions")
		err = nil
	}
	return counts, err
}

// jobAt makes the job of the client at a state. The owner's consents and the client's results go
// into that state.
func (d *clientHost) jobAt(public []byte, at clientSpec, log *zerolog.Logger) (*node.Job, error) {
	var trained *experiment.Party
	job, err := d.job(public, func(ctx context.Context, e *experiment.Experiment) (client.Trainer, error) {
		p, err := d.party(ctx, e, at, log)
		if err != nil {
			return nil, err
		}
		trained = p
		log.Info().Int("ratings", p.Ratings).Int("not_in_the_catalogue", p.Skipped-p.Unlisted).Int("of_users_not_listed", p.Unlisted).Msg("training on")
		return p, nil
	})
	if err == nil {
		job.Consented = func() error { return d.consented(public, at.state, log) }
		job.Keep = func() error {
			if c := trained.Clipped(); c.Clipped > 0 {
				log.Warn().Int64("vectors", c.Vectors).Int64("clipped", c.Clipped).Msg("vectors were beyond the bounds that the algorithm declares, and were clipped to them")
			}
			told := log.With().Str("next", d.next(at)).Logger()
			return party.KeepResult(trained, public, at.state, job.Terms.Session, &told)
		}
	}
	return job, err
}

// next returns a command that shows the owner of a client the result of its last session. It stands in a log, which has
// no ids.
func (d *clientHost) next(at clientSpec) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	words := []string{"fednode", "recommend", "--state", at.state, "--data", d.data, "--user", "USER"}
	users := at.holding.User != "" || d.set != nil && len(d.set.UserIDs) > 0
	if e := d.opened; e == nil || e.Data.Profile != nil || !users {
		words = []string{"fednode", "status", "--state", at.state}
	}
	return strings.Join(screen.Quoted(words), " ")
}

// job makes a client's work in a session.
func (d *clientHost) job(public []byte, train func(context.Context, *experiment.Experiment) (client.Trainer, error)) (*node.Job, error) {
	e, refusal, err := d.experiment(public)
	if err != nil {
		return nil, err
	}
	job := &node.Job{Refusal: refusal, Agreed: func(p *protocol.Plan) error { return agreement.CheckPlan(e, p) },
		Train: func(ctx context.Context) (client.Trainer, error) { return train(ctx, e) }}
	if e.About().Clients == algorithm.Users {
		job.Worst = func(context.Context) (client.Trainer, error) {
			return e.LargestParty(func(p *protocol.Plan) error { return agreement.CheckPlan(e, p) })
		}
	}
	if e.Private() {
		job.Budget, job.Limit = &e.Privacy.Budget, d.consent.limit(e.Privacy.Budget)
		job.Ceilings = d.consent.within(e.Privacy.Budget)
		job.Protects = dp.Protection{Unit: algorithm.UnitOf(e.Config), Relation: e.Statement(dp.Result{}).Relation}
	}
	job.Terms = terms(e)
	return job, nil
}
