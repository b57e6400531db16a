package fedssp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// UserParams holds the settings of everything that stays with the client.
type UserParams struct {
	UserRidge float64 // added to the diagonal for u; a rating adds ‖v_j‖²
	// variance of the drift of a user's ratings over time, relative to a rating's; 0: no drift. See
	// drift.go
	Drift        float64
	UserFeatures *UserFeatures // public features that clients weigh for themselves; nil: none. Explicit feedback only
	Popularity   float64       // how strongly users' taste for popular items varies; 0: not at all. With Bias only
}

// declareUser declares the keys of each client's own fit.
func declareUser() {
	keys.userRidge = number("statistics.user-ridge", config.Positive(), func(s settings) bool { return s.items() && !s.variational() }, "1 or 2, 3 where gradients are summed, 4 without noise; more at a rank above the default", "Ridge of a user's own fit.",
		always(func(s settings) float64 { return s.userRidge() * s.rankPenalty() }))
	keys.userFeatureWeight = number("statistics.user-feature-weight", config.Between(0, 10), settings.weighsFeatures, "0.35 of our forms, 0 of the papers'",
		"How strongly users are expected to differ in what they think of public features, which each client fits for itself.",
		always(func(s settings) float64 { return either(s.form().ours, 0.35*math.Sqrt(s.rankPenalty()), 0) }))
	keys.userDrift = number("statistics.user-drift", config.Between(0, 10), explicit, "0.25 of our forms and of item biases alone, 0 of the papers'",
		"Expected drift of a user's ratings from sitting to sitting, as a variance relative to a rating's. Each client fits its own drift, if its data have timestamps.",
		always(settings.userDrift))
	keys.popularityWeight = config.DeclareNumber(config.Key{
		Name: "statistics.user-popularity-weight", Kind: config.Real, Default: "auto", Auto: "0.15 with posteriors, which learn how much users differ; else 0", Range: config.Between(0, 10), When: condition(settings.popularity).when(),
		Help: "How strongly users are expected to differ in what they think of items that many rate, which each client fits for itself.",
		// With noise 0.15 gains 0.001 to 0.002 RMSE on MovieLens latest-small, and loses 0.0007 on
		// synthetic:ml-1m.
		ChooseNumber: func(c config.Config, _ *config.Facts) config.Number {
			return config.Fixed(either(settingsOf(c).variational(), 0.15, 0))
		},
	})
}

func (s settings) user(f *dataset.ItemFeatures) UserParams {
	c := s.Config
	return UserParams{
		UserRidge: keys.userRidge.Value(c), Drift: either(s.drifts(), keys.userDrift.Value(c), 0), UserFeatures: s.userFeatures(f),
		Popularity: either(s.popularity(), keys.popularityWeight.Chosen(c), 0),
	}
}

// User is one user's side: a client.Trainer. Its ratings, embedding and bias stay with the client.
type User struct {
	*crowd
	chosen   []int   // places of the sampled ratings among all; nil: not drawn yet, or all take part
	scale    float64 // of weights with [GlobalNorm]; 0: not computed yet
	u        []float64
	bias     float64
	at       int32 // its place among users
	finished bool
}

// Stage is the client's part of a stage of releases.
type clientStage interface {
	// length counts the coordinates of the release of a name; 0: the settings have no release of
	// that name.
	length(p *Params, release string) int
	// beforeChoice reports whether the stage covers the whole catalogue, and may come before the
	// items to train on are chosen.
	beforeChoice(*Params) bool
	// contribute computes a client's addition to a sum.
	contribute(*contribution, protocol.Release) (protocol.Vector, error)
}

// crowd is the common state of the users of one process.
type crowd struct {
	params *Params
	stage  func(release string) clientStage // finds the stage of a release
	all    model.RatingsByUser
	kept   *model.RowArena // holds u of each user
	timed  bool            // made up for timing: in every batch
}

// newUsers returns the trainers of n users of one process. They keep their embeddings in kept.
// stage finds the stage of a release.
func newUsers(p *Params, stage func(release string) clientStage, n int, all model.RatingsByUser, kept *model.RowArena) []User {
	shared, list := &crowd{params: p, stage: stage, all: all, kept: kept}, make([]User, n)
	for i := range list {
		list[i] = User{crowd: shared, at: int32(i)}
	}
	return list
}

func (t *User) ratings(in *model.Buffer) model.Ratings { return t.all.RatingsOf(int(t.at), in) }

// read returns the ratings, and an error if they are invalid.
func (t *User) read(in *model.Buffer) (model.Ratings, error) {
	r := t.ratings(in)
	return r, t.params.checkRatings(r)
}

// checkRatings returns an error if a user's ratings are invalid. The error is logged, so it says
// nothing about their values.
func (p *Params) checkRatings(r model.Ratings) error {
	if len(r.Items) != len(r.Values) {
		return errors.New("fedssp: there are not as many items as values; each rating is one of each")
	}
	last := int32(-1)
	for k, j := range r.Items {
		if j <= last || int(j) >= p.Items {
			return fmt.Errorf("fedssp: the items of ratings do not ascend, or one is not below %d", p.Items)
		}
		last = j
		if x := float64(r.Values[k]); p.Feedback == Explicit && !(x >= p.Min && x <= p.Max) {
			return fmt.Errorf("fedssp: a rating is outside of the scale; ratings are from %v to %v", p.Min, p.Max)
		}
	}
	return nil
}

// Embedding is u, followed by the user's weights of public features, after the last fit; nil before
// the first. Not a copy.
func (t *User) Embedding() []float64 { return t.u }

// Bias is the user's own bias after the last fit.
func (t *User) Bias() float64 { return t.bias }

// Finished reports whether the user was fitted to the final model.
func (t *User) Finished() bool { return t.finished }

// Contribute returns a vector for each release of the plan, by name. An error does not depend on
// the ratings, unless they are off the scale.
func (t *User) Contribute(p *protocol.Plan, src entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	if p.OwnNoise() {
		return nil, errors.New("fedssp: the plan asks users for noise of their own, and these users add none; the ledger would be charged for missing noise")
	}
	m, err := openBroadcast(p.Broadcast, t.params)
	if err != nil {
		return nil, err
	}
	memory := model.Borrow()
	defer memory.Return()
	all, err := t.read(memory)
	if err != nil {
		return nil, err
	}
	c := contribution{User: t, params: m.p, all: all, model: m, src: src, round: p.Round, phase: p.Phase, clients: p.Cohort.Clients}
	c.ratings, c.from = m.trainedOn(all)
	defer c.free()
	vectors := make([]protocol.Vector, len(p.Releases))
	for i, r := range p.Releases {
		if vectors[i], err = c.vector(r); err != nil {
			return nil, fmt.Errorf("fedssp: release %q: %w", r.Name, err)
		}
	}
	return vectors, nil
}

// Finish fits the user to the final model.
func (t *User) Finish(final []byte, _ protocol.Runner) error {
	m, err := openBroadcast(final, t.params)
	if err != nil {
		return err
	}
	memory := model.Borrow()
	defer memory.Return()
	all, err := t.read(memory)
	if err != nil {
		return err
	}
	if m.unchosen {
		return ErrNotCounted
	}
	w := newWorkspace(m.p)
	defer w.free()
	ratings, _ := m.trainedOn(all)
	w.gather(m.p, m, ratings)
	w.fit(m.p, m)
	t.keep(w)
	t.finished = true
	return nil
}

// Snapshot returns the user's own parameters, if it takes steps, and the sample of ratings, if
// there is one. Fitted numbers are not saved: every round fits anew.
func (t *User) Snapshot() ([]byte, error) {
	keeps := clientSideOf(t.params).keeps(t.params)
	if t.chosen == nil && (keeps == 0 || t.u == nil) {
		return nil, nil
	}
	b := make([]byte, 0, 8*keeps+4*len(t.chosen))
	if keeps > 0 {
		b = appendFloats(appendFloats(b, t.u...), make([]float64, t.params.width()-len(t.u))...)
		b = appendFloats(b, t.bias)
	}
	for _, k := range t.chosen {
		b = binary.LittleEndian.AppendUint32(b, uint32(k))
	}
	return b, nil
}

// Resume reads a snapshot.
func (t *User) Resume(snapshot []byte, _ entropy.Source) error {
	if snapshot == nil {
		return nil
	}
	size := 8 * clientSideOf(t.params).keeps(t.params)
	if len(snapshot) < size {
		return fmt.Errorf("fedssp: a snapshot of %d bytes; a user's parameters have %d", len(snapshot), size)
	}
	steps := numbers(snapshot[:size])
	for _, x := range steps {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("fedssp: a snapshot holds the number %v; numbers are finite", x)
		}
	}
	snapshot = snapshot[size:]
	memory := model.Borrow()
	defer memory.Return()
	n, ratings := len(snapshot)/4, len(t.ratings(memory).Items)
	if len(snapshot)%4 != 0 || n > ratings || n > t.params.PerUser {
		return fmt.Errorf("fedssp: a snapshot of %d bytes of places of ratings; there are %d ratings, and at most %d count", len(snapshot), ratings, t.params.PerUser)
	}
	chosen := make([]int, n)
	for i := range chosen {
		k := binary.LittleEndian.Uint32(snapshot[4*i:])
		if int64(k) >= int64(ratings) || slices.Contains(chosen[:i], int(k)) {
			return fmt.Errorf("fedssp: a snapshot with the rating at place %d, of %d different ones", k, ratings)
		}
		chosen[i] = int(k)
	}
	if size > 0 {
		t.u, t.bias = steps[:len(steps)-1], steps[len(steps)-1]
	}
	if t.params.Budgeting != Weights {
		t.chosen = chosen
	}
	return nil
}

// width is the length of a user's embedding with its weights of popularity and of public features.
func (p *Params) width() int { return p.Rank + p.ownWidth() }

func (t *User) keep(w *workspace) {
	if t.u == nil {
		t.u = t.kept.Row(int(t.at))
	}
	t.u = w.embedding(t.params, t.u[:0])
	t.bias = w.bias(t.params)
}

// contribution computes a user's releases of one round, each when it is asked for.
type contribution struct {
	*User
	params  *Params       // of the items that are trained on
	all     model.Ratings // all ratings of the user
	ratings model.Ratings // the ratings of those items, by their places among them
	from    []int         // places of these ratings among all; nil: all
	chosen  []int         // the ratings that take part
	model   broadcast
	src     entropy.Source
	round   uint64
	phase   string
	clients int

	batch   coin
	work    *workspace
	weights []float64 // of the chosen ratings; nil: not computed yet
	slopes  []float64 // of moments or gradients: the factors of u; nil: not computed yet
	share   float64   // the factor of the user's statistics that NormItems allows; set with slopes
}

func (c *contribution) free() {
	if c.work != nil {
		c.work.free()
	}
}

// vector computes one release.
func (c *contribution) vector(r protocol.Release) (protocol.Vector, error) {
	of := c.stage(r.Name)
	if want := of.length(c.User.params, r.Name); want == 0 {
		return protocol.Vector{}, errors.New("no such release is known")
	} else if r.Len != want {
		return protocol.Vector{}, fmt.Errorf("it has %d coordinates; it must have %d", r.Len, want)
	}
	if err := c.asSampled(r); err != nil {
		return protocol.Vector{}, err
	}
	ratings := c.ratings
	if of.beforeChoice(c.params) {
		ratings = c.all
	} else if c.model.unchosen {
		return protocol.Vector{}, errors.New("the model does not say which items are trained on")
	}
	if len(ratings.Items) == 0 {
		return protocol.Vector{Index: []uint32{}}, nil
	}
	return of.contribute(c, r)
}
