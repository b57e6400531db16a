package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/lab/internal/observe"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/server"
	"github.com/fedsim/fedsim/sim"
)

// NeighbourComparison holds the differences between the views of two runs whose data differ in one unit.
type NeighbourComparison struct {
	Algorithm string  `json:"algorithm"`
	Unit      dp.Unit `json:"unit"`
	// Compared counts what was compared, by what it is.
	Compared []Compared `json:"compared"`
	// Differences are the first of each kind; none where only noised integers differ.
	Differences []string `json:"differences"`
}

// Compared is a number of things of a kind.
type Compared struct {
	What  string `json:"what"`
	Count int    `json:"count"`
}

// kinds of what is seen, in the order of a comparison.
var kinds = []string{"settings", "plans and charges", "file names", "messages and sizes", "log lines", "rounds and their times", "models"}

// Neighbours runs an experiment twice, the second time with one unit emptied. The unit is user 0, or the first
// rating that is trained on; an example gets another label instead. Every contribution must be within the bounds of its
// release, and the unit's two contributions no further apart than its sensitivity. The noise is the same, and the server of the
// second run is handed the noised sums of the first. So the runs can differ only in things that the noise does not
// cover. All of these must be the same, byte for byte: settings, plans, charges, names of files, log lines of
// parties, the model, and every message with its size and time on the virtual clock. In messages, the noised
// integers of sums and of the clients that hold the unit may differ. The contributions of all other clients may not.
func Neighbours(ctx context.Context, said []config.Setting) (*NeighbourComparison, error) {
	full, err := Open(said)
	if err != nil {
		return nil, err
	}
	if !full.About().Federated() {
		return nil, config.Errorf("%s has all ratings in one place: no message reaches an adversary", full.About().Name)
	}
	set, err := emptied(full)
	if err != nil {
		return nil, err
	}
	empty, err := experiment.OpenSet(full.Asked, set)
	if err != nil {
		return nil, err
	}
	own, err := owners(full)
	if err != nil {
		return nil, err
	}
	c := &NeighbourComparison{Algorithm: full.About().Name, Unit: algorithm.UnitOf(full.Config), Compared: []Compared{{What: contributed}}, Differences: []string{}}
	var runs []*witness
	var sums []protocol.Sums
	for _, e := range []*experiment.Experiment{full, empty} {
		w, failed := watch(ctx, e, own, sums)
		if w != nil {
			c.Compared[0].Count += w.contributions
			c.add(contributed, w.beyond...)
		}
		switch {
		case len(c.Differences) > 0: // and the client that refused it ended the run
			return c, nil
		case failed != nil:
			return nil, failed
		}
		runs, sums = append(runs, w), w.sums
	}
	far, err := apart(runs[0].own, runs[1].own, wholeClient(full))
	if err != nil {
		return nil, err
	}
	c.add(contributed, far...)
	for _, kind := range kinds {
		a, b := runs[0].seen[kind], runs[1].seen[kind]
		c.Compared = append(c.Compared, Compared{kind, len(a)})
		c.add(kind, different(a, b))
	}
	return c, nil
}

// contributed is a kind of what is compared, beside kinds.
const contributed = "contributions with their bounds"

// add adds the first of differences of a kind, if there is any.
func (c *NeighbourComparison) add(kind string, differences ...string) {
	if len(differences) > 0 && differences[0] != "" {
		c.Differences = append(c.Differences, kind+": "+differences[0])
	}
}

// emptied returns the data with one unit emptied. The set of users, and the training ratings of other users, stay.
// Of an example only the label is private: emptied replaces it by the end of the scale that is farther from it.
func emptied(e *experiment.Experiment) (*dataset.Set, error) {
	train := e.Split.Train
	first := slices.Index(train.User, 0)
	if first < 0 {
		return nil, config.Errorf("no rating of user 0 is in the training part; take another seed or a smaller test share")
	}
	if algorithm.UnitOf(e.Config) == dp.Example {
		set := *e.Data
		set.Value = slices.Clone(set.Value)
		for k := range set.Value {
			if set.User[k] == 0 && set.Item[k] == train.Item[first] {
				v, lo, hi := float64(set.Value[k]), set.Min, set.Max
				if set.Value[k] = float32(lo); v-lo < hi-v {
					set.Value[k] = float32(hi)
				}
			}
		}
		return &set, nil
	}
	return e.Data.Where(func(user, item int32) bool {
		return user != 0 || algorithm.UnitOf(e.Config) == dp.Rating && item != train.Item[first]
	}), nil
}

// owners are the clients whose data hold the unit: its user, or each organisation that trains on fewer ratings without the unit.
func owners(e *experiment.Experiment) (map[protocol.ClientID]bool, error) {
	own := make(map[protocol.ClientID]bool)
	if !e.About().Clients.Organisations() {
		own[0] = true
		return own, nil
	}
	item := e.Split.Train.Item[slices.Index(e.Split.Train.User, 0)]
	without := e.Data.Where(func(user, j int32) bool {
		return user != 0 || algorithm.UnitOf(e.Config) != dp.User && j != item
	})
	for id := range e.Cohort.All() {
		part := algorithm.PartyData{Part: id + 1}
		if e.About().Clients == algorithm.UserParties {
			part.IDs = e.Data.UserIDs
		}
		var ratings [worlds]int
		for w, set := range []*dataset.Set{without, e.Data} {
			p, err := e.Party(part, set, nil)
			if err != nil {
				return nil, err
			}
			ratings[w] = p.Ratings
		}
		if ratings[0] != ratings[1] {
			own[protocol.ClientID(id)] = true
		}
	}
	return own, nil
}

// different is the first difference of two lists; "" where there is none.
func different(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("number %d is %q with the unit and %q without", i+1, cut(a[i], b[i]), cut(b[i], a[i]))
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("there are %d with the unit and %d without", len(a), len(b))
	}
	return ""
}

// cut is the part of a line around where it differs from another.
func cut(line, other string) string {
	const around = 40
	i := 0
	for i < min(len(line), len(other)) && line[i] == other[i] {
		i++
	}
	return line[max(0, i-around):min(len(line), i+around)]
}

// witness collects what is seen of a run.
type witness struct {
	seen   map[string][]string
	owners map[protocol.ClientID]bool // their noised integers may differ
	sums   []protocol.Sums            // released in each round that released any
	unseen error                      // why the content of a message could not be noted; nil: all was

	mu            sync.Mutex // of the contributions
	contributions int
	beyond        []string // contributions that are beyond a bound
	own           map[weighed]sentVector
}

func (w *witness) note(kind, format string, args ...any) {
	w.seen[kind] = append(w.seen[kind], fmt.Sprintf(format, args...))
}

// watch runs an experiment. Where sums are given, its server absorbs these. With an error it returns what was seen before.
func watch(ctx context.Context, e *experiment.Experiment, owners map[protocol.ClientID]bool, sums []protocol.Sums) (*witness, error) {
	w := &witness{seen: make(map[string][]string), owners: owners, own: make(map[weighed]sentVector)}
	if err := w.opened(e); err != nil {
		return nil, err
	}
	f, err := e.Federation()
	if err != nil {
		return nil, err
	}
	strategy := f.Strategy.(server.Durable) // as every experiment's is
	f.Strategy = observe.Strategy{Strategy: strategy, Told: func(_ *protocol.Plan, s *protocol.Sums) error {
		if n := len(w.sums); n < len(sums) {
			s.Values = lists.Map(sums[n].Values, slices.Clone)
		}
		w.sums = append(w.sums, protocol.Sums{Values: lists.Map(s.Values, slices.Clone), Survivors: s.Survivors})
		return nil
	}}
	for id, t := range f.Trainers {
		f.Trainers[id] = observe.Trainer{Trainer: t, Told: func(p *protocol.Plan, list []protocol.Vector) { w.weigh(protocol.ClientID(id), p, list) }}
	}
	cfg := training.Simulation(e, f, func(it sim.Round, model []byte) error {
		w.note("rounds and their times", "%+v", it)
		w.note("models", "%x", model)
		return nil
	})
	cfg.Sent = w.sent
	cfg.Logged = func(at time.Duration, ev protocol.Event) {
		w.note("log lines", "%s: %s %s %s %s in %d: %v", at, ev.Kind, ev.Party, ev.By, ev.Stage, ev.Round, ev.Err)
	}
	out, err := sim.Run(ctx, cfg)
	if err = errors.Join(err, w.unseen); err != nil {
		return w, err
	}
	w.note("rounds and their times", "%s, %v up, %v down, charged %v", out.Clock, out.Up, out.Down, out.Charged)
	w.note("models", "%x", out.Model)
	state, err := strategy.Save()
	w.note("models", "%x", state)
	return w, err
}

// opened notes everything that is fixed before the first party trains.
func (w *witness) opened(e *experiment.Experiment) error {
	for line := range bytes.SplitSeq(e.Config.YAML(), []byte("\n")) {
		w.note("settings", "%s", line)
	}
	for _, p := range e.Plans() {
		w.note("plans and charges", "%x", p.Hash())
	}
	w.note("plans and charges", "%+v", e.Privacy)
	f, err := forecast.New(e)
	if err != nil {
		return err
	}
	f.Data, f.Encoder = f.Data.Public(), nil // without the fields that no statement of privacy covers
	text, err := json.Marshal(f)
	w.note("plans and charges", "%s", text)
	w.note("file names", "%s", filepath.Base(results.DefaultName(e)))
	return err
}

// sent notes a message, except the noised integers of the unit's owners and of sums over clients. Masked integers are as long as they
// were, and zero: the masks cover them.
func (w *witness) sent(at time.Duration, e protocol.Envelope) {
	m, err := protocol.Whole(e.Message)
	if err != nil {
		w.unseen = errors.Join(w.unseen, err)
		return
	}
	switch x := m.(type) {
	case *protocol.MaskedInput:
		y := *x
		y.Masked = nil
		for _, b := range x.Masked {
			y.Masked = append(y.Masked, make([]byte, len(b)))
		}
		if w.owners[e.From.Client] {
			y.Vectors = nil
		}
		m = &y
	case *protocol.Result:
		y := *x
		y.Integers = nil
		m = &y
	case *protocol.Abort:
		w.note("messages and sizes", "%s: %v", at, x.Reason)
	}
	text, err := json.Marshal(m)
	w.unseen = errors.Join(w.unseen, err)
	w.note("messages and sizes", "%s: %s to %s: %s, %d bytes: %s", at, e.From, e.To, m.Kind(), protocol.Size(e.Message), text)
}

// Err says how many kinds of what is seen differ. It returns nil if only the noised integers differ.
func (c *NeighbourComparison) Err() error {
	if len(c.Differences) == 0 {
		return nil
	}
	return fmt.Errorf("runs that differ in one %s differ in more than noised integers, or contribute more than their bounds: %d of %d kinds of what is seen",
		c.Unit, len(c.Differences), len(c.Compared))
}

// Print writes what was compared, and what differs.
func (c *NeighbourComparison) Print(w io.Writer) error { return printed(w, "neighbours", c) }
