// Package external is an algorithm whose computations a program outside makes, in any language: what a user contributes,
// what the server makes of a sum, and what a model predicts. The program is a process that answers requests over its
// standard input and output; algorithm/external/external.md describes them. Everything else is fedsim's: each vector is clipped to the
// bounds that the program declared, noise is calibrated to them, and ledgers account for it.
//
// Importing the package makes the algorithm known as external.
package external

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

const name = "external"

var (
	label = config.DeclareText(config.Key{
		Name: "external.name", Kind: config.Text, Help: "Name of the algorithm of the program, to tell runs of several programs apart. The variable " + Variable + " names the program.",
	})
	limit = config.DeclareNumber(config.Key{
		Name: "external.limit", Kind: config.Whole, Range: config.AtLeast(1), Default: "300",
		Help: "Seconds without a sign of the program after which it is stopped and the run fails.",
	})
)

func init() { algorithm.MustRegister(external{}) }

type external struct{}

var about = algorithm.About{
	Name: name, Help: "computes in a program of yours, in Python or another language, under secure sums and exact accounting",
	Clients: algorithm.Users, Noise: algorithm.DistributedNoise, Private: true,
	Units: []dp.Unit{dp.User}, OtherUnit: "a user's vector depends on all its ratings: privacy is stated per user", Relation: dp.ZeroOut,
	Features: algorithm.TakesFeatures,
	Keys:     append(algorithm.Federated(), algorithm.Rounds.Key, algorithm.FeatureSpec.Key, algorithm.NoiseDraw.Key, label.Key, limit.Key),
	Rounds:   algorithm.Always(10),
	Rank:     algorithm.Always(1),
}

func (external) About() *algorithm.About { return &about }

func (external) Open(s *algorithm.Setup) (algorithm.Instance, error) {
	x, err := open(s)
	if err != nil {
		return nil, err
	}
	return x, s.CalibrateSplit(nil)
}

func (external) Load(c config.Config, set *dataset.Set, files algorithm.Files) (*algorithm.Saved, error) {
	features := files.Features()
	if features == nil {
		var err error
		if features, _, err = algorithm.ReadFeatures(c, set); err != nil {
			return nil, err
		}
	}
	x, err := open(&algorithm.Setup{Config: c, Data: set, Train: files.Train(), Features: features})
	if err != nil {
		return nil, err
	}
	m, err := files.Matrix(x.matrix(), x.start.Rows(), x.start.Cols())
	if err != nil {
		return nil, err
	}
	items := model.NewMatrix(set.Items, 0) // no embedding: no item is like another
	if x.byItem() {
		items = m
	}
	p := x.predictor(m)
	popular, err := x.predict(x.clients, []model.Ratings{{}}, nil, p.model)
	if err != nil {
		return nil, err
	}
	all := model.Indices(set.Items)
	return &algorithm.Saved{
		Items: items, Popularity: algorithm.PopularityOf(popular[0]), Failed: p.Err,
		Score: func(user int, out []float64) { p.Predict(user, all, out) },
	}, nil
}

type instance struct {
	setup *algorithm.Setup
	start *model.Matrix

	// The server's program has seen no ratings. The program of the clients of a simulation sees all of them. The
	// witness sees few users, one at a time.
	server, clients, witness seat

	counts counts // of a simulation

	contributed *blocks[protocol.Vector]
	predicted   *blocks[[]float64] // of all items
	chosen      *blocks[[]float64] // of the items that are expected
	absorbed    atomic.Bool        // the last sum

	mu      sync.Mutex
	sent    []*sent    // the last models
	first   *program   // the program that described itself, until a seat takes it
	running []*program // all
	over    bool       // no program starts any more
}

// counts counts the vectors that were computed, and those beyond a bound.
type counts struct{ vectors, clipped atomic.Int64 }

func (c *counts) read() algorithm.Clipped {
	return algorithm.Clipped{Vectors: c.vectors.Load(), Clipped: c.clipped.Load()}
}

// open starts the program and has it describe itself.
func open(s *algorithm.Setup) (*instance, error) {
	x := &instance{setup: s}
	x.server, x.clients, x.witness = sync.OnceValues(x.take), sync.OnceValues(x.take), sync.OnceValues(x.take)
	var reply message
	var err error
	if x.first, reply, err = x.run(); err != nil {
		return nil, err
	}
	if x.start, err = matrix(reply); err != nil {
		return nil, config.Errorf("external: open: %w", err)
	}
	if s.Schedule, err = declared(reply, algorithm.Rounds.Int(s.Config), model.EncodedSize(x.start.Dims())); err != nil {
		return nil, config.Errorf("external: %w", err)
	}
	longest := 0
	for _, r := range s.Schedule.All() {
		longest = max(longest, r.Len)
	}
	const keptPredictions = 256 << 20 // the error, its slices and lists are of the same predictions
	x.contributed, x.predicted = newBlocks[protocol.Vector](longest, 0), newBlocks[[]float64](s.Data.Items, keptPredictions)
	x.chosen = newBlocks[[]float64](s.Data.Items, 0)
	return x, nil
}

// run starts a program, and returns how it describes itself.
func (x *instance) run() (*program, message, error) {
	s := x.setup
	p, err := start(time.Duration(limit.Int(s.Config)) * time.Second)
	if err != nil {
		return nil, message{}, err
	}
	runtime.AddCleanup(x, func(in io.WriteCloser) { in.Close() }, p.in) //nolint:errcheck // the program ends with its input
	if locked.Get(&x.mu, func() bool { x.running = append(x.running, p); return x.over }) {
		x.Stop()
	}
	of := &problem{
		ItemIDs: s.Data.ItemIDs, RatingMin: s.Data.Min - s.Data.Shift, RatingMax: s.Data.Max - s.Data.Shift,
		Rounds: algorithm.Rounds.Int(s.Config), Seed: algorithm.Seed.Of(s.Config),
	}
	if s.Features != nil {
		of.Features = s.Features.Categories
	}
	const mostModel = 1 << 31
	reply, err := p.ask("open", message{Type: "open", Problem: of}, mostModel)
	return p, reply, err
}

// take returns a program that has seen nothing yet.
func (x *instance) take() (*program, error) {
	if p := locked.Get(&x.mu, func() (p *program) { p, x.first = x.first, nil; return p }); p != nil {
		return p, nil
	}
	p, _, err := x.run()
	return p, err
}

// Stop ends the programs at once. A call that waits for them fails with context.Canceled.
func (x *instance) Stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	for _, p := range x.running {
		p.ended.Store(true)
	}
	kill(x.running...)
}

func (x *instance) release(round uint64) protocol.Release {
	return x.setup.Schedule.At(round).Releases[0]
}

// declared returns the schedule that a program declares: one release for all rounds, or phases. The rings are fitted later.
func declared(reply message, rounds, size int) (protocol.Schedule, error) {
	phases := reply.Phases
	if reply.Release != nil {
		phases = []phase{{Name: "sum", release: *reply.Release}}
	}
	if len(phases) == 0 {
		return nil, fmt.Errorf("%w: there is no release", errProtocol)
	}
	var list protocol.Schedule
	for k, d := range phases {
		n := d.Rounds
		if k == len(phases)-1 && n == 0 {
			n = rounds
		}
		if n < 1 || n > rounds || k == len(phases)-1 && n != rounds {
			return nil, fmt.Errorf("phase %d (%s) has %d rounds, and %d of the run's are left for it; each phase needs one, and all rounds need a phase", k+1, d.Name, n, rounds)
		}
		rounds -= n
		r, err := d.valid()
		if err != nil {
			return nil, fmt.Errorf("the release of phase %d (%s): %w", k+1, d.Name, err)
		}
		list = append(list, protocol.Step{Rounds: n, Phase: r.Name, Releases: []protocol.Release{r}, Model: size})
	}
	return list, nil
}

func (d phase) valid() (protocol.Release, error) {
	r := protocol.Release{Name: d.Name, Len: d.Length, L2: d.L2, L1: d.L1, LInf: d.LInf, MaxNonZero: d.NonZero, Scale: d.Scale, Width: 8}
	r.MaxNonZero = cmp.Or(r.MaxNonZero, r.Len)
	if r.Len < 1 || r.Len > protocol.MaxLen || !(r.L2 > 0) || math.IsInf(r.L2, 0) || r.MaxNonZero < 0 {
		return r, fmt.Errorf("length %d, L2 bound %v and %d coordinates other than zero; there must be 1 to %d coordinates and a positive bound", r.Len, r.L2, r.MaxNonZero, protocol.MaxLen)
	}
	r.Scale = cmp.Or(r.Scale, algorithm.Scale(r))
	return r, r.Validate()
}

func matrix(reply message) (*model.Matrix, error) {
	a, ok := reply.named("model")
	if !ok || len(a.shape) != 2 || a.length() == 0 || a.float == nil {
		return nil, fmt.Errorf("%w: the model has the shape %v; a matrix of floats is needed", errProtocol, a.shape)
	}
	if i := dense.NotFinite(a.float); i >= 0 {
		return nil, fmt.Errorf("row %d and column %d of the model is %v; all must be finite", i/a.shape[1], i%a.shape[1], a.float[i])
	}
	m := model.NewMatrix(a.shape[0], a.shape[1])
	copy(m.Data(), a.float)
	return m, nil
}

// byItem reports whether the model has a row for each item.
func (x *instance) byItem() bool { return x.start.Rows() == x.setup.Data.Items }

// matrix returns the name of the model's file.
func (x *instance) matrix() string {
	if x.byItem() {
		return "item_embeddings"
	}
	return "model"
}

func (x *instance) rows() []string {
	if x.byItem() {
		return x.setup.Data.ItemIDs
	}
	return lists.Map(model.Indices(x.start.Rows()), func(i int32) string { return fmt.Sprint(i) })
}

// sent is a model as the program gets it.
type sent struct {
	encoded []byte
	matrix  *model.Matrix
}

func (m *sent) array() array {
	rows, cols := m.matrix.Dims()
	return array{name: "model", shape: []int{rows, cols}, float: m.matrix.Data()}
}

// mostSent is the number of models that are kept.
const mostSent = 3

// decode reads a shared model. Equal bytes give one and the same model.
func (x *instance) decode(shared []byte) (*sent, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range x.sent {
		if len(shared) == len(m.encoded) && (&shared[0] == &m.encoded[0] || bytes.Equal(shared, m.encoded)) {
			return m, nil
		}
	}
	b, err := model.NewBroadcast(shared, x.start.Rows(), x.start.Cols())
	if err != nil {
		return nil, err
	}
	m := &sent{shared, b.Matrix()}
	x.sent = append(x.sent, m)
	x.sent = x.sent[max(0, len(x.sent)-mostSent):]
	return m, nil
}

// Clipped counts the vectors that were computed, and those beyond a bound.
func (x *instance) Clipped() algorithm.Clipped { return x.counts.read() }

// Words say how many vectors were clipped.
func (x *instance) Words() algorithm.Words {
	c := x.counts.read()
	text := fmt.Sprintf("%d of %d vectors clipped to the declared bounds", c.Clipped, c.Vectors)
	if said := label.Of(x.setup.Config); said != "" {
		text = said + ", " + text
	}
	return algorithm.Words{Model: text}
}

func (x *instance) Strategy(session protocol.SessionID) (algorithm.Strategy, error) {
	m := &modelserver.Matrix{Matrix: x.start.Clone()}
	return &strategy{x, &modelserver.Server{Schedule: x.setup.Schedule, Cohort: x.setup.Cohort, Session: session, Name: name, Domain: stateDomain, Shared: m}, m}, nil
}

func (x *instance) ClientSide() (algorithm.ClientSide, error) { return clients{x}, nil }

func (x *instance) Party(which algorithm.PartyData, l *algorithm.LocalData) (*algorithm.Party, error) {
	user, err := l.UserOf(name, which)
	if err != nil {
		return nil, err
	}
	t := &trainer{instance: x, user: -1, ratings: l.Row(user)}
	return &algorithm.Party{Ratings: len(t.ratings.Items), Trainer: t, Clipped: t.counts.read, Result: func() []model.Embeddings {
		predicted := model.NewMatrix(1, x.setup.Data.Items)
		copy(predicted.Row(0), t.predicted)
		return []model.Embeddings{model.NewEmbeddings("predicted", predicted, l.IDs(user, which))}
	}}, nil
}

func (x *instance) Shared(shared []byte) ([]model.Embeddings, error) {
	m, err := x.decode(shared)
	if err != nil {
		return nil, err
	}
	return []model.Embeddings{model.NewEmbeddings(x.matrix(), m.matrix, x.rows())}, nil
}

func (x *instance) Baselines() []algorithm.Baseline {
	return []algorithm.Baseline{
		{Name: "before_cooperation", Note: "the start, without any round", Predict: func(protocol.Runner) (model.Predictor, error) {
			return x.predictor(x.start), nil
		}},
		algorithm.NonPrivate(x.setup, "", nil),
	}
}
