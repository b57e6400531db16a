package command

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// consent holds the conditions under which a client takes part. The operator has signed who the server is, but the server alone chooses its
// demands: the budget of the ledger too, and how many clients it assumes to stay and not to collude.
type consent struct {
	MaxEpsilon     float64  `default:"10" placeholder:"E" help:"The most that all sessions of this state together may cost; a server that asks for more is refused. inf: anything, sums without noise too."`
	MaxDelta       float64  `default:"1e-05" placeholder:"D" help:"The largest delta at which that is counted: with a larger one a small epsilon promises little."`
	Ceiling        []string `sep:"none" placeholder:"E/PERIOD" help:"The most that the sessions within any period of that length may cost, beside --max-epsilon: 2/30d is 2 in any 30 days; 12h and 52w are periods, too. May be repeated."`
	TellAffordable bool     `help:"A client that declines a session for its cost also says which of 20, 10, 5, 2, 1, 0.5, 0.2 and 0.1 it could afford. The aggregator learns that of this client, the server how many clients there are of each."`

	RequireMode  string  `enum:"semi-honest,active" default:"semi-honest" help:"What sums must defend against at the least: in a session in mode semi-honest, an aggregator that lies can learn this client's contribution with hardly any noise. active: refuse such sessions."`
	MinColluders float64 `default:"0.01" placeholder:"SHARE" help:"The least share of clients that a session must reckon with pooling what they see with the aggregator; any above 0 is one client at the least. 0: agree to an epsilon that counts on every other client to be honest."`
	Unit         string  `enum:"user,rating,any" default:"user" help:"What a session must protect: user (all ratings of one), rating (one of them, of which a user has many), or any."`
	Experiment   string  `placeholder:"FILE" help:"The experiment that the client agrees to, written like the server's: a session of any other is refused. Default: any within --max-epsilon and --max-delta."`

	experiment *config.Config // in the file Experiment; nil: any is agreed to
	ceilings   []node.Ceiling // as Ceiling says them
}

func (o *consent) read() error {
	switch {
	case !(o.MaxEpsilon > 0):
		return cli.Misusef("--max-epsilon %v: a number above 0 is needed, or inf", o.MaxEpsilon)
	case !(o.MaxDelta > 0 && o.MaxDelta < 1):
		return cli.Misusef("--max-delta %v: a number above 0 and below 1 is needed", o.MaxDelta)
	case !(o.MinColluders >= 0 && o.MinColluders < 1):
		return cli.Misusef("--min-colluders %v: a share of at least 0 and below 1 is needed", o.MinColluders)
	}
	for _, text := range o.Ceiling {
		limit, err := parseCeiling(text)
		if err != nil {
			return cli.Misusef("--ceiling %s: %w", text, err)
		}
		o.ceilings = append(o.ceilings, limit)
	}
	if o.Experiment == "" {
		return nil
	}
	said, err := config.ReadFile(o.Experiment)
	if err != nil {
		return err
	}
	agreed, err := config.Resolve(said)
	if err != nil {
		return err
	}
	o.experiment = &agreed
	asked := dp.Budget{Epsilon: algorithm.Epsilon.Value(agreed), Delta: algorithm.Delta.Or(agreed, 0)}
	return o.keeps("--experiment "+o.Experiment, asked, algorithm.Mode.Of(agreed), algorithm.Colluders.Or(agreed, math.Inf(1)), algorithm.UnitOf(agreed))
}

// refuses says why the client takes no part in a session, if so. The session's terms follow from its configuration (agreement.Open).
func (o *consent) refuses(p *agreement.Public) error {
	t := p.Terms
	err := o.keeps("the session", t.Budget, algorithm.Mode.Of(p.Config), t.Cohort.Colluders, t.Privacy.Unit)
	if err != nil || o.experiment == nil {
		return err
	}
	agreed, err := agreement.Publish(*o.experiment, p.Facts, p.Session)
	if err != nil {
		return cli.Misusef("--experiment %s: it does not go with the session's data: %w", o.Experiment, err)
	}
	if other := p.Other(agreed); len(other) > 0 {
		return cli.Misusef("--experiment %s: the session is of another experiment, other in %s", o.Experiment, strings.Join(other, ", "))
	}
	return nil
}

// limit is the upper limit of the cost of all sessions of a ledger together, counted as the present session counts its own budget.
func (o *consent) limit(session dp.Budget) *dp.Budget {
	session.Epsilon = min(o.MaxEpsilon, math.MaxFloat64) // inf: whatever each of them states
	return &session
}

// keeps says which of the owner's limits a session or the owner's own experiment does not keep, if so.
func (o *consent) keeps(whose string, b dp.Budget, mode string, colluders float64, unit dp.Unit) error {
	noiseless := math.IsInf(b.Epsilon, 1)
	switch {
	case noiseless && !math.IsInf(o.MaxEpsilon, 1):
		return cli.Misusef("--max-epsilon %v: %s has sums without noise, which only inf allows", o.MaxEpsilon, whose)
	case !(b.Epsilon <= o.MaxEpsilon):
		return cli.Misusef("--max-epsilon %v: %s has a budget of epsilon=%v, which is more", o.MaxEpsilon, whose, b.Epsilon)
	case !noiseless && !(b.Delta <= o.MaxDelta):
		return cli.Misusef("--max-delta %v: %s counts its epsilon at delta=%v, which is more", o.MaxDelta, whose, b.Delta)
	case o.RequireMode == secagg.Active.String() && mode != o.RequireMode:
		return cli.Misusef("--require-mode %s: %s is in mode %s", o.RequireMode, whose, mode)
	case !(colluders >= o.MinColluders):
		return cli.Misusef("--min-colluders %v: %s reckons with a share of %v who collude", o.MinColluders, whose, colluders)
	case o.Unit != "" && o.Unit != "any" && o.Unit != string(unit) && !noiseless:
		return cli.Misusef("--unit %s: %s protects unit=%s; --unit %s agrees to it", o.Unit, whose, unit, unit)
	}
	return nil
}

// consented tells the owner in one line what a client takes part in, and keeps it in the state with the owner's limits on epsilon.
func consented(e *experiment.Experiment, public []byte, state string, by *consent, log *zerolog.Logger) error {
	c, err := consentTo(e)
	if err != nil {
		return err
	}
	c.Agreement = digestOf(public)
	c.MaxEpsilon = strconv.FormatFloat(by.MaxEpsilon, 'g', -1, 64)
	c.Ceilings = lists.Map(by.ceilings, func(c node.Ceiling) string { return c.Name })
	if err = store.SaveConsent(state, c); err != nil {
		return err
	}
	line := log.Info().Str("session", c.Session).Str("algorithm", c.Algorithm).Stringer("privacy", c.Privacy).Str("mode", c.Mode).
		Int("clients", c.Clients).Float64("colluders", c.Colluders).Float64("tolerance", c.Tolerance).Int("rounds", c.Rounds)
	if c.Budget > 0 {
		line.Float64("budget", c.Budget)
	}
	if c.Start != "" {
		line.Str("start", c.Start)
	}
	line.Msg("consented to")
	if c.EpsilonToLiar > 0 {
		log.Warn().Str("epsilon_to_lying_aggregator", dp.RoundUp(c.EpsilonToLiar, 3)).
			Msg("mode semi-honest trusts the aggregator not to lie about who takes part; --require-mode active refuses such sessions")
	}
	if e.Private() && c.Colluders == 0 && e.Schedule.Noise().Kind != protocol.PartyNoise {
		log.Warn().Msg("colluders=0: epsilon counts on the noise of every other client; --min-colluders refuses such sessions")
	}
	return nil
}

// warnOmitted warns of sessions that a client's ledger has charged and that the server's start leaves out. The server then states
// a total of ε without them. Its state may be restored from an older copy, at an aggregator that has forgotten them too.
func warnOmitted(e *experiment.Experiment, charged []string, log *zerolog.Logger) {
	omitted := slices.DeleteFunc(charged, func(name string) bool {
		return name == fmt.Sprintf("%x", e.Session()) ||
			slices.ContainsFunc(e.Start.Sessions, func(past algorithm.PastSession) bool { return past.Session == name })
	})
	if len(omitted) > 0 {
		log.Warn().Strs("sessions", omitted).Msg("the server starts from releases that leave out sessions which this client's ledger has charged: " +
			"its total of epsilon for all sessions is smaller than this client's own. Ask the operator whether the server's state was restored from an older copy. The ledger counts every session")
	}
}

// digestOf names what is public of a session, which its terms follow from.
func digestOf(public []byte) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:])
}

// describedBefore refuses a session of which the owner has agreed to another description. No honest server changes the
// description of a session. The owner would read one, and the client take part in another.
func describedBefore(state string, session protocol.SessionID, public []byte) error {
	all, err := store.Consents(state)
	if err != nil {
		return nil // which status and check tell: the ledger limits what is spent
	}
	name := hex.EncodeToString(session[:])
	for _, c := range all {
		if c.Session == name && c.Agreement != "" && c.Agreement != digestOf(public) {
			return cli.Misusef("the session %s has another description now than the description that the owner agreed to on %s; the server must begin another session", name, c.At.Format(time.DateOnly))
		}
	}
	return nil
}

func consentTo(e *experiment.Experiment) (*store.Consent, error) {
	planned, err := e.Planned()
	if err != nil {
		return nil, err
	}
	c := &store.Consent{
		Session: fmt.Sprintf("%x", e.Session()), At: time.Now().UTC(), Algorithm: e.About().Name, Privacy: e.Statement(planned),
		Mode: e.Mode().String() + e.InputsWords(), Clients: e.Cohort.All(), Colluders: e.Cohort.Colluders, Tolerance: e.Cohort.Tolerance, Rounds: e.Schedule.Rounds(),
	}
	if e.Start != nil {
		c.Start = hex.EncodeToString(e.Start.Digest[:])
	}
	if !e.Private() {
		return c, nil
	}
	if b := e.Privacy.Budget.Epsilon; !math.IsInf(b, 1) {
		c.Budget = b
	}
	if e.Mode() == secagg.SemiHonest {
		c.EpsilonToLiar, err = toLiar(e)
	}
	return c, err
}

// toLiar is the ε of a session towards an aggregator that shows a client only itself, so that the sum is this client's
// vector with its own noise. Of split noise less than the share V/w is left: the aggregator says that all N clients survived,
// and the client gives back, in the clear, what exceeds V/(N-c). Hidden coins are counted as known: they hardly help a client
// that is alone. toLiar is 0 where a client's own noise is no part of a sum.
func toLiar(e *experiment.Experiment) (float64, error) {
	alone := e.Setup
	alone.Schedule = e.Schedule.Clone()
	for _, r := range alone.Schedule.All() {
		switch r.Noise.Kind {
		case protocol.Split:
			r.Noise = protocol.Noise{Kind: protocol.LocalNoise, Variance: r.Noise.Variance / float64(e.Cohort.Honest(e.Cohort.Wanted()))}
		case protocol.LocalNoise:
			r.Noise.SamplingRate = 0
		default:
			return 0, nil
		}
	}
	events, err := alone.Charges(alone.Schedule.Rounds())
	if err != nil {
		return 0, err
	}
	// Without the samplers' error, whose part of δ grows with e^ε: at such an ε it would be all of δ.
	b := e.Privacy.Budget
	r, err := dp.Problem{Events: events, Delta: b.Delta, Accountant: b.Accountant}.Epsilon()
	return r.Epsilon, err
}

const day = 24 * time.Hour

var periodUnits = map[string]time.Duration{"h": time.Hour, "d": day, "w": 7 * day}

var errCeiling = errors.New("an epsilon and a period are needed, like 2/30d; a period is a whole number of hours (h), days (d) or weeks (w), at most 100 years")

// parseCeiling reads the most that the sessions within any period of a length may cost. How that is counted is the session's to say.
func parseCeiling(text string) (c node.Ceiling, err error) {
	number, period, ok := strings.Cut(text, "/")
	c.Budget.Epsilon, err = strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(c.Budget.Epsilon > 0) || math.IsInf(c.Budget.Epsilon, 1) || period == "" {
		return c, errCeiling
	}
	last := len(period) - 1
	n, err := strconv.ParseUint(period[:last], 10, 32)
	unit, known := periodUnits[period[last:]]
	if err != nil || !known || n == 0 || n > uint64(100*366*day/unit) {
		return c, errCeiling
	}
	c.Period, c.Name = time.Duration(n)*unit, fmt.Sprintf("%v/%s", c.Budget.Epsilon, period)
	return c, nil
}

// within returns the ceilings, counted as a session counts its own budget.
func (o *consent) within(session dp.Budget) []node.Ceiling {
	return lists.Map(o.ceilings, func(c node.Ceiling) node.Ceiling {
		session.Epsilon = c.Budget.Epsilon
		c.Budget = session
		return c
	})
}

// Reasons why a process has nothing to train on.
var (
	errNobody = errors.New("the data have ratings, and none of these clients")
	errOther  = errors.New("another user")
	errNone   = errors.New("no record can be used")
)

type clientSpec struct {
	state, invitation string
	holding           algorithm.PartyData
}

// holdings are the data that a process would bring to a session, as far as its own files say.
type holdings struct {
	set     *dataset.Set
	left    leftOut
	absent  []string // users of the process without a rating in the data
	nothing error    // why no client of the process has a rating, though the data have ratings; else nil
	unnamed error    // the call does not say which of the data are the client's, so that every session is declined; else nil
}

// confirmed returns an error if the separator of the data is another than commas, and was found and not stated: a client
// spends ε on what it reads, so it guesses nothing. --check shows what it would read.
func (h *holdings) confirmed() error {
	for _, f := range h.set.Findings {
		if f.What == "separator" && f.Sure != dataset.Stated && f.Found != "commas" {
			return cli.Misusef("%s looks as if it had %s between its fields. A client spends epsilon on what it reads and guesses nothing: look at it with --check, then confirm with --separator %s",
				h.set.Name, f.Found, strings.TrimSuffix(f.Found, "s"))
		}
	}
	return nil
}

// look finds out which users of the process are in its data. agreed is the experiment that the owner agrees to; nil: any.
func (h *holdings) look(specs []clientSpec, agreed *config.Config) {
	organisation := agreed != nil && algorithm.Of(*agreed).About().Clients.Organisations()
	for _, at := range specs {
		if which := at.holding; which.User == "" && which.Part == 0 && len(which.IDs) == 0 && (h.set.Users > 1 || organisation) {
			h.unnamed = cli.Misusef("%s: the call does not say which of its ratings are this client's. A client of one user needs --user ID. An organisation needs --part K, or --ids FILE with its users (hfl) or items (vfl)", h.set.Name)
		}
	}
	if h.set.Len() == 0 { // a header alone is an empty record, like any other
		if h.left.count > 0 {
			h.nothing = fmt.Errorf("%w: all %d in %s are left out. Write ratings as numbers, or say how the file is written with --columns and --separator", errNone, h.left.count, h.set.Name)
		}
		return
	}
	users := make(map[string]bool, len(h.set.UserIDs))
	for _, id := range h.set.UserIDs {
		users[id] = true
	}
	present := false
	for _, at := range specs {
		switch which := at.holding; {
		case which.User != "" && !users[which.User]:
			h.absent = append(h.absent, which.User)
		case which.User == "" && len(which.IDs) > 0:
			listed := func(id string) bool { return users[id] || slices.Contains(h.set.ItemIDs, id) }
			present = present || slices.ContainsFunc(which.IDs, listed)
			if !present {
				h.absent = append(h.absent, which.IDs[0])
			}
		default:
			present = true
		}
	}
	if !present {
		h.nothing = fmt.Errorf("%w: %s holds %d ratings of %d users, and none of the ids that this process stands for, such as %q%s",
			errNobody, h.set.Name, h.set.Len(), h.set.Users, h.absent[0], likeness(h.absent[0], h.set.UserIDs))
	}
}

// likeness says which id of the data may be meant; "" where none is like it.
func likeness(id string, ids []string) string {
	plain := func(s string) string {
		s = strings.TrimSuffix(strings.ToLower(strings.Trim(s, " \t\"'\ufeff")), ".0")
		return strings.TrimLeft(s, "0")
	}
	for _, other := range ids {
		if plain(other) == plain(id) {
			return fmt.Sprintf("; the data have %q", other)
		}
	}
	return ""
}

// begin returns an error before an invitation is used. A single client that is not in the data takes part all the same: refusing must not
// tell whether its user has ratings. If there are several clients and none is in the data, the list is wrong.
func (h *holdings) begin(clients int, empty bool, log *zerolog.Logger) error {
	switch {
	case h.unnamed != nil:
		return h.unnamed
	case h.nothing != nil && (clients == 1 || empty):
		log.Error().Str("reason", h.nothing.Error()).Msg("IS THE ID RIGHT, AND THE FILE? The client takes part with an empty record, and pays epsilon for nothing. If one is wrong, stop now and start again with the right --user, --ids or --data")
	case h.nothing != nil:
		return cli.Misusef("%w. Mend --data, --users or --ids, or take part with empty records with --empty", h.nothing)
	case len(h.absent) > 0:
		log.Warn().Int("clients", len(h.absent)).Msg("these clients have no rating in the data: they take part like all others, with an empty record")
	}
	return nil
}

// report prints what would be trained on, for --check. Its error says that a user is not there, or not named.
func (h *holdings) report(ctx context.Context, w io.Writer, specs []clientSpec, items string) error {
	known := make(map[string]bool)
	unlisted := 0
	if items != "" {
		list, err := read.Items(ctx, items, read.Options{})
		if err != nil {
			return fmt.Errorf("--items: %w", err)
		}
		for _, id := range list.ItemIDs {
			known[id] = true
		}
	}
	of := make(map[string]int, len(h.set.UserIDs))
	for k, user := range h.set.User {
		of[h.set.UserIDs[user]]++
		if items != "" && !known[h.set.ItemIDs[h.set.Item[k]]] {
			unlisted++
		}
	}
	var low, high float32
	if h.set.Len() > 0 {
		low, high = slices.Min(h.set.Value), slices.Max(h.set.Value)
	}
	err := shown.ExecuteTemplate(w, "holdings", map[string]any{
		"set": h.set, "low": low, "high": high, "out": h.left.count, "items": items, "known": len(known), "unlisted": unlisted,
		"clients": lists.Map(specs, func(at clientSpec) algorithm.PartyData { return at.holding }), "of": of,
	})
	return cmp.Or(err, h.unnamed, h.nothing)
}

// reading says how to read a party's own data, whatever the experiment says.
type reading struct {
	Columns    string `placeholder:"user=NAME,..." help:"What the data call their columns, where it is not user, item, rating and timestamp: user=visitor,item=sku. Without a column of ratings every row is a click."`
	Duplicates string `enum:"last,mean,count" default:"last" help:"What to do if a user rated an item twice: keep the last, the mean, or the count (clicks, up to the top of the scale)."`
	Separator  string `placeholder:"SEP" help:"Separator of the data's fields: comma, semicolon, tab, pipe, space, :: or another character. Default: found by the first lines."`
	NoHeader   bool   `help:"The first row of the data is a rating, and the columns are user, item, rating and timestamp unless --columns says other places."`
	DayFirst   bool   `help:"Dates with slashes, such as 05/06/2024, have the day before the month. Default: found by days above 12, else the month is first."`
	Encoding   string `placeholder:"NAME" help:"Encoding of the data, such as latin1, utf-16 or gbk. Default: found by the first bytes."`
	Member     string `placeholder:"NAME" help:"The file of a folder or archive that holds the ratings."`
	Unrated    string `placeholder:"N,..." help:"Values of the column of ratings that mean not rated, such as 0,-1,99. Their rows are left out."`
}

func (r *reading) check() error {
	texts := read.Texts{Columns: r.Columns, Separator: r.Separator, Encoding: r.Encoding, Member: r.Member, Unrated: r.Unrated}
	if err := texts.Set(new(read.Options)); err != nil {
		return cli.Misusef("%w", err)
	}
	return nil
}

// of has the party's data of an experiment be read so. The last of a pair counts by itself, and the owner is then told of the others.
func (r *reading) of(c *config.Config) {
	word := map[bool]string{true: "yes", false: "no"}
	algorithm.Columns.Set(c, r.Columns)
	algorithm.Separator.Set(c, r.Separator)
	algorithm.Encoding.Set(c, r.Encoding)
	algorithm.Member.Set(c, r.Member)
	algorithm.Unrated.Set(c, r.Unrated)
	algorithm.NoHeader.Set(c, word[r.NoHeader])
	algorithm.DayFirst.Set(c, word[r.DayFirst])
	if r.Duplicates != string(read.DuplicatesLast) {
		algorithm.Duplicates.Set(c, r.Duplicates)
	}
}
