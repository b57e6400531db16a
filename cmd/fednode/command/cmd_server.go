package command

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
)

// serverCmd is fednode server. It holds no user's ratings.
type serverCmd struct {
	File        string   `arg:"" optional:"" name:"experiment.yaml" help:"Experiment file, as for fedsim run: its data name the folder with the list of items."`
	Items       string   `placeholder:"PATH" help:"List of items: a CSV file with a column item, or a folder with movies.csv, movies.dat, u.item or items.csv. Default: the data of the experiment. Ratings in it are not opened."`
	Users       string   `placeholder:"N|FILE" help:"Between organisations: how many users they have together or, where they share users (vfl), a file with the ids, one a line; fednode align leaves one that has none, users.txt in the state."`
	Set         []string `placeholder:"KEY=VALUE" sep:"none" help:"Any key of an experiment file, with dots between levels; may be repeated."`
	Invitation  string   `placeholder:"FILE" help:"The server's invitation; needed once."`
	Donations   string   `placeholder:"DIR" help:"Folder of the files that donors wrote with fednode client --donate. Their ratings are in every description of a session that begins with them, and no epsilon covers these users."`
	Revocations string   `placeholder:"FILE" help:"Whom the operator has revoked, from the operator itself: an aggregator could hold it back. Read again on SIGHUP; may be missing."`
	State       string   `required:"" placeholder:"DIR" help:"Where identity, membership, session and checkpoints are kept; made if it is missing. A start with the same one goes on or, once the session has ended, begins the next one if the experiment is another."`
	StartFrom   string   `placeholder:"FOLDER" help:"Folder of a session's model, or of a run of fedsim, from whose releases the session starts, or last: the newest model of the state. Using releases again costs no privacy. Default: the start-from of the experiment."`
	Again       string   `enum:",session,end" default:"" placeholder:"WHAT" help:"With the experiment of the session that has ended: session begins another one of it, which costs as much again; end says its end once more, to an aggregator that has lost it."`
	Abandon     bool     `help:"End the session of the state, which never began or cannot go on, without a model, and do nothing else. What clients have sent in it stays charged. Another experiment then begins the next session."`
	Spare       int      `placeholder:"N" help:"How many places of clients may stay vacant, beside those that were given up: they do not count as lost."`
	MayDecline  *float64 `placeholder:"SHARE" help:"The largest share of clients that may decline the session, for its cost or its terms, before the first round: if more do, the server ends, and nothing is charged. Default: as many as a round may lose."`
	Out         string   `placeholder:"DIR" help:"Where the model and summary.json are left. Default: the folder sessions/ID/model in the state. The link current in the state then leads to that folder."`
	Ops         string   `placeholder:"ADDRESS" help:"Address on this machine of metrics, health and status, like 127.0.0.1:9465. Default: nowhere."`
	probeFlag
	movedFlag
	Format string `enum:"table,json" default:"table" help:"How to print the summary: table or json."`
}

func (c *serverCmd) Run(ctx context.Context, s *streams) error {
	log := s.log("server")
	switch {
	case c.Abandon:
		return c.abandon(ctx, s, &log)
	case c.File == "":
		return cli.Misusef("no experiment file is named: fednode server experiment.yaml --items DIR --state %s; only --abandon needs none", c.State)
	case c.Spare < 0:
		return cli.Misusef("--spare %d: a number of places is needed", c.Spare)
	case c.MayDecline != nil && !(*c.MayDecline >= 0 && *c.MayDecline <= 1):
		return cli.Misusef("--may-decline %v: a share from 0 to 1 is needed", *c.MayDecline)
	}
	if f, _, err := party.Of(c.State, c.Invitation); err == nil { // else the call ends with that error
		s.starts(&log, f)
	}
	settings, err := c.settings(&log)
	if err != nil {
		return err
	}
	told := parties{path: c.Revocations}
	f, settings, err := c.facts(ctx, settings, &told, &log)
	if err != nil {
		return err
	}
	start, err := party.ReadStart(settings, c.State)
	if err != nil {
		return err
	}
	f.Start = agreement.StartOf(start)
	monitor, stop, err := c.monitored(ctx, "server", c.Ops, &log)
	if err != nil {
		return err
	}
	defer stop()
	monitor.Disk(c.State)
	defer told.follow(ctx, monitor, &log)()
	moved, err := c.moved()
	if err != nil {
		return err
	}
	m, err := party.Open(ctx, c.State, c.Invitation, protocol.Server, moved, &log)
	if err != nil {
		return err
	}
	defer m.Close() //nolint:errcheck // all that is in them is durable
	public, e, err := c.experiment(settings, f, start, m, &log)
	if err != nil {
		return err
	}
	m.Workers, m.Observer = protocol.Workers(runtime.GOMAXPROCS(0)), monitor
	n := node.ServerConfig{Member: m.Member, Gather: seconds(algorithm.Gather.Value(settings)), Terms: terms(e)}
	if n.Strategy, err = e.Strategy(); err != nil {
		return err
	}
	if n.Experiment, err = public.Encode(); err != nil {
		return err
	}
	if n.Hash, err = public.Hash(); err != nil {
		return err
	}
	n.Knows = func(session string) (bool, error) { return party.Knows(c.State, session) }
	if c.MayDecline != nil {
		may := int(math.Floor(*c.MayDecline*float64(e.Cohort.All()) + 1e-9)) // 0.29 of 100 is 29
		n.MayDecline = &may
	}
	server, err := node.NewServer(n)
	if err != nil {
		return err
	}
	leave, err := told.join(server.Revoke)
	if err != nil {
		return err
	}
	defer leave()
	began := time.Now()
	out, err := server.RunAndDrain(ctx)
	switch is := fmt.Sprintf("%x", e.Session()); {
	case errors.Is(err, protocol.ErrNothingReleased): // the session has ended all the same
		return errors.Join(err, party.End(c.State, is))
	case errors.Is(err, node.ErrGrown): // the next start begins a session of all places
		return errors.Join(err, party.Abandon(c.State, is))
	case errors.Is(err, node.ErrDeclined): // so has this one, and a start again would not change that
		return cli.Misusef("%w; the session has ended, and another experiment begins the next one", errors.Join(err, party.Abandon(c.State, is)))
	case errors.Is(err, node.ErrUnkept):
		return full(err)
	case err != nil:
		return err
	}
	record, err := e.Record(n.Strategy, nil, int(out.Attempts.Opened-out.Attempts.Released))
	if err != nil {
		return err
	}
	return full(c.conclude(s.out, e, n.Experiment, out, record, time.Since(began)))
}

func (c *serverCmd) settings(log *zerolog.Logger) (config.Config, error) {
	said, err := config.ReadFile(c.File)
	if err != nil {
		return config.Config{}, err
	}
	set, err := config.Assignments("--set", c.Set)
	if err != nil {
		return config.Config{}, err
	}
	said = append(said, set...)
	if c.StartFrom != "" {
		said = append(said, config.Setting{Key: algorithm.StartFrom.Name, Value: c.StartFrom, Origin: "--start-from"})
	}
	resolved, err := config.Resolve(said)
	if err != nil {
		return resolved, err
	}
	if _, err = algorithm.Deployed(resolved); err != nil {
		return resolved, err
	}
	for _, w := range algorithm.DeploymentWarnings(resolved) {
		log.Warn().Msg(w)
	}
	return resolved, nil
}

// facts reads the owner's files before an invitation is used or a session begins.
func (c *serverCmd) facts(ctx context.Context, settings config.Config, told *parties, log *zerolog.Logger) (agreement.Facts, config.Config, error) {
	federation, _, err := party.Of(c.State, c.Invitation)
	if err != nil {
		return agreement.Facts{}, settings, err
	}
	if err = told.check(federation); err != nil {
		return agreement.Facts{}, settings, err
	}
	if federation, err = party.Latest(c.State, federation); err != nil {
		return agreement.Facts{}, settings, err
	}
	settings, changed, err := spared(settings, federation.Places(), len(federation.Retired())+c.Spare)
	if err != nil {
		return agreement.Facts{}, settings, err
	}
	if changed != "" {
		log.Info().Int("places", federation.Places()).Int("given_up", len(federation.Retired())).Int("spare", c.Spare).Msg(changed + ": these places do not count as lost")
	}
	given, err := gifts(c.Donations, federation, log)
	if err != nil {
		return agreement.Facts{}, settings, err
	}
	f, err := facts(ctx, settings, cmp.Or(c.Items, algorithm.Data.Of(settings)), c.Users, federation.Places(), given...)
	return f, settings, err
}

func (c *serverCmd) experiment(settings config.Config, f agreement.Facts, start *algorithm.Start, m *party.Member, log *zerolog.Logger) (*agreement.Public, *experiment.Experiment, error) {
	federation := m.Registry.Federation()
	next, err := party.Propose(settings, f, c.State, c.Again)
	if err != nil {
		return nil, nil, err
	}
	e, err := party.OpenSession(next.Public, c.State, start)
	if err != nil {
		return nil, nil, err
	}
	if e.Cohort.All() != federation.Places() {
		return nil, nil, cli.Misusef("the experiment has %d parties, and the federation %q has %d clients", e.Cohort.All(), federation.Name, federation.Places())
	}
	if err = c.checkOut(next.Public); err != nil {
		return nil, nil, err
	}
	for _, dir := range []string{c.State, c.Out} {
		if err = atomicfile.RoomForModel(dir, e.Schedule.Model()); err != nil && dir != "" {
			return nil, nil, err
		}
	}
	if err = next.Begin(e.Start); err != nil {
		return nil, nil, err
	}
	if e.Start != nil {
		log.Info().Str("digest", next.Public.Facts.Start.Digest).Int("sessions", len(e.Start.Sessions)).Msg("the session starts from earlier releases")
	}
	if next.Past != "" {
		log.Info().Str("past", next.Past).Str("in", filepath.Join(c.State, party.PastFolder, next.Past)).Msg("the last session has ended; another one begins")
	}
	return next.Public, e, nil
}

// abandon ends the session of the state. No server may be running on the state.
func (c *serverCmd) abandon(ctx context.Context, s *streams, log *zerolog.Logger) error {
	m, err := party.Open(ctx, c.State, "", protocol.Server, nil, log)
	if err != nil {
		return err
	}
	defer m.Close() //nolint:errcheck // all that is in them is durable
	at, err := party.StandingOf(c.State)
	if err != nil {
		return err
	}
	if at.Session == "" || at.Ended != "" {
		return cli.Misusef("--abandon: %s has no session that has not ended", c.State)
	}
	if err = party.Abandon(c.State, at.Session); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "abandoned  %s\n", at.Session)
	return err
}

func (c *serverCmd) checkOut(p *agreement.Public) error {
	if c.Out == "" {
		return nil
	}
	of, err := party.SessionIn(filepath.Join(c.Out, party.SummaryFile))
	if err != nil {
		return err
	}
	if is := hex.EncodeToString(p.Session[:]); of != "" && of != is {
		return cli.Misusef("--out %s: it holds the model of the session %s, and this is another; name another folder", c.Out, of)
	}
	return nil
}

// summary is summary.json of a session: what it came to, as far as a server knows.
type summary struct {
	Algorithm string `json:"algorithm"`
	Items     int    `json:"items"`
	Session   string `json:"session"`
	Secagg    string `json:"secagg"`
	Mode      string `json:"mode"`
	Noise     string `json:"noise"`
	Clients   int    `json:"clients"`
	Lost      int    `json:"may_be_lost"` // of them, in a round
	Collude   int    `json:"may_collude"`
	// Rounds were attempted, of them SkippedRounds released nothing.
	Rounds        uint64 `json:"rounds"`
	SkippedRounds uint64 `json:"skipped_rounds"`
	// Privacy is the largest cost of these rounds to any unit: all at their full price.
	Privacy dp.Statement `json:"privacy"`
	// AllSessions is the cost of the session with all sessions that it starts from; nil if it starts from nothing.
	AllSessions *results.AllSessions `json:"all_sessions,omitempty"`
	Seconds     float64              `json:"seconds"` // since this start
	Results     string               `json:"results"`
}

// conclude leaves the model and says what the session came to.
func (c *serverCmd) conclude(w io.Writer, e *experiment.Experiment, public []byte, out *node.Outcome, record *algorithm.Start, took time.Duration) error {
	dir, shown, session := c.Out, c.Out, fmt.Sprintf("%x", e.Session())
	if dir == "" {
		dir, shown = party.ModelFolderOf(c.State, session), filepath.Join(c.State, party.CurrentLink)
	}
	spent, err := e.SpentAtMost(int(out.Attempts.Opened))
	if err != nil {
		return err
	}
	s := &summary{
		Algorithm: e.About().Name, Items: e.Data.Items, Session: session,
		Secagg: algorithm.Secagg.Of(e.Config), Mode: algorithm.Mode.Of(e.Config) + e.InputsWords(), Noise: algorithm.Noise.Of(e.Config),
		Clients: e.Cohort.All(), Lost: e.Cohort.Wanted() - e.Cohort.Required(), Collude: e.Cohort.Colluding(),
		Rounds: out.Attempts.Opened, SkippedRounds: out.Attempts.Opened - out.Attempts.Released,
		Privacy: e.Statement(spent), Seconds: took.Seconds(), Results: shown,
	}
	shared, err := e.Instance().Shared(out.Model)
	if err != nil {
		return err
	}
	if err = os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	wrote := []string{results.PublicFile, results.SharedFile, party.SummaryFile} // --out may have files of others
	for _, x := range shared {
		if err = results.WriteEmbeddings(dir, x); err != nil {
			return err
		}
		wrote = append(wrote, x.Name+".npy", x.Name+".ids.json")
	}
	if err = results.WriteDeployed(dir, public, out.Model); err != nil {
		return err
	}
	if s.AllSessions, err = party.WriteRecord(dir, e, record); err != nil {
		return err
	}
	if record != nil {
		wrote = append(wrote, lineage.File)
	}
	if err = atomicfile.WriteJSON(filepath.Join(dir, party.SummaryFile), s); err != nil {
		return err
	}
	sessions, err := c.sessions(e, out)
	if err != nil {
		return err
	}
	if err = results.WriteEvidence(dir, sessions, func(name string) bool { return slices.Contains(wrote, name) }); err != nil {
		return err
	}
	if err = atomicfile.Sync(filepath.Dir(dir)); err != nil {
		return err
	}
	if c.Out == "" {
		if err = party.SetCurrent(c.State, session); err != nil {
			return err
		}
	}
	if err = party.End(c.State, s.Session); err != nil {
		return err
	}
	if c.Format == "json" {
		return cli.PrintJSON(w, s)
	}
	return s.print(w, e)
}

// sessions states this session, with every attempt at its full price, after the sessions that it starts from.
func (c *serverCmd) sessions(e *experiment.Experiment, out *node.Outcome) (all []algorithm.PastSession, err error) {
	var charged []dp.Event
	if e.Private() {
		if charged, err = e.Charges(int(out.Attempts.Opened)); err != nil {
			return nil, err
		}
	}
	if e.Start != nil {
		all = append(all, e.Start.Sessions...)
	}
	past, err := e.Past(charged, int(out.Attempts.Opened-out.Attempts.Released))
	return append(all, past), err
}

func (s *summary) print(w io.Writer, e *experiment.Experiment) error {
	var text strings.Builder
	if err := shown.ExecuteTemplate(&text, "summary", struct {
		*summary
		Words string
	}{s, s.Privacy.Words(e.Observers())}); err != nil {
		return err
	}
	next := [][]string{{"fedsim", "export", "--run", s.Results, "--to", "csv"}}
	if e.Data.Profile == nil {
		next = append(next, []string{"fedsim", "similar", "--run", s.Results, "--item", e.Data.ItemIDs[0]})
	}
	return screen.Print(w, text.String(), next...)
}

// terms returns the terms that every party goes by in a session of an experiment.
func terms(e *experiment.Experiment) *node.Terms {
	return &node.Terms{
		Session: e.Session(), Cohort: e.Cohort, Mode: e.Mode(), VerifyInputs: e.VerifiesInputs(), SitOut: algorithm.SitOut.Value(e.Config),
		StageTimeout: seconds(algorithm.StageTimeout.Value(e.Config)), Tail: seconds(algorithm.Tail.Value(e.Config)), Gather: seconds(algorithm.Gather.Value(e.Config)), Steps: e.Schedule,
		Claims: agreement.Claims(e),
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// facts returns the public facts about the data: the list of items in a folder, and who or how many
// the users are. No other rating is opened than the donors'.
func facts(ctx context.Context, c config.Config, items, users string, clients int, given ...agreement.Gift) (agreement.Facts, error) {
	set, err := read.Items(ctx, items, experiment.DataOptions(c))
	if err != nil {
		return agreement.Facts{}, fmt.Errorf("--items: the list of items, a file or a folder with movies.csv, movies.dat, u.item or items.csv: %w", err)
	}
	about := algorithm.Of(c).About()
	switch about.Clients {
	case algorithm.ItemParties:
		if users == "" {
			return agreement.Facts{}, cli.Misusef("--users FILE is needed with %s: the ids of all users, one a line. fednode align leaves such a file, users.txt in the state", about.Name)
		}
		if set.UserIDs, err = readIDs(users); err != nil {
			return agreement.Facts{}, cli.Misusef("--users: with %s a file with the ids of all users is needed, one a line: %w", about.Name, err)
		}
		set.Users = len(set.UserIDs)
	case algorithm.UserParties:
		if users == "" {
			return agreement.Facts{}, cli.Misusef("--users N is needed with %s: the number of users of all parties together", about.Name)
		}
		if set.Users, err = strconv.Atoi(users); err != nil {
			return agreement.Facts{}, cli.Misusef("--users: with %s the number of users of all parties is needed, not %q", about.Name, users)
		}
	default:
		if users != "" {
			return agreement.Facts{}, cli.Misusef("--users: with %s every client is a user", about.Name)
		}
		set.Users = clients
	}
	set.Raters = agreement.Facts{ItemIDs: set.ItemIDs, Donors: given}.Raters()
	f, err := agreement.FactsOf(c, set)
	f.Donors = given
	return f, err
}

// spared raises the tolerance of settings by the places that cannot be taken, so that they do not
// count as lost. Rounds require the same share of the other clients, and noise is for these. It returns
// a text of the change for the log; "" if there is none.
func spared(settings config.Config, places, without int) (config.Config, string, error) {
	omega := algorithm.Tolerance.Value(settings)
	if without == 0 {
		return settings, "", nil
	}
	there := places - without
	if there < 1 {
		return settings, "", cli.Misusef("%d of %d places are spare or given up: none is left", without, places)
	}
	lost := int(math.Floor(omega*float64(there)+1e-9)) + without
	algorithm.Tolerance.Set(&settings, float64(lost)/float64(places))
	return settings, fmt.Sprintf("tolerance is %v in place of %v", algorithm.Tolerance.Value(settings), omega), nil
}
