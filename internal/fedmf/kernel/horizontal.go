package kernel

import (
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Horizontal is a party of HFL-SGDMF, which holds all ratings of its own users: a client.Trainer. V
// is shared; U_k never leaves the party (FMF paper, section 5).
type Horizontal struct {
	party
	// Tuned has the party's own versions of the embeddings after stage 3; nil before.
	Tuned *model.Factors
}

// NewHorizontal makes the party of the given users; rows are their ratings of all items.
func NewHorizontal(p *PartyParams, users []int32, rows []model.Ratings) (*Horizontal, error) {
	if len(users) == 0 || len(users) != len(rows) {
		return nil, errors.New("fedmf: a party of HFL must have at least one user, and the ratings of each")
	}
	common, err := newParty(p, "user", users, p.Users, rows, p.Items)
	return &Horizontal{party: common}, err
}

// Finished reports whether stage 3 has run.
func (t *Horizontal) Finished() bool { return t.Tuned != nil }

// begin returns U_k after stage 1: fitted to all ratings, or with RandomUsers the start with the
// spread of V, by the public seed. A user's embedding follows from the user's own ratings and the public start, without noise.
func (t *Horizontal) begin(v *model.Matrix, run protocol.Runner) *model.Matrix {
	p := t.params
	if !p.RandomUsers {
		u := model.NewMatrix(len(t.Own), p.Rank)
		run.Each(len(t.Own), func(i int) { copy(u.Row(i), p.User(t.ratings.row(i), v)) })
		return u
	}
	u := p.StartUsers(len(t.Own))
	p.Scatter(u, entropy.Public(p.Seed, fmt.Sprintf("fedmf/start-users/%d", t.Own[0])))
	return u
}

// Contribute takes T' local steps on V from the broadcast V, with U_k fixed or trained too, and
// returns (w_k·V^(k), w_k).
func (t *Horizontal) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	n, err := t.params.own(p, t.params.Items, false)
	if err != nil {
		return nil, err
	}
	v, err := t.params.receive(p.Broadcast, t.params.Items)
	if err != nil {
		return nil, err
	}
	if t.steps == nil {
		if err = t.prepare(v, src); err != nil {
			return nil, err
		}
		t.Users = t.begin(v, run)
	}
	t.steps.v = v
	if err = t.train(p.Round, n, src, t.step); err != nil {
		return nil, err
	}
	if t.params.Gradients {
		v = t.steps.gradV
	}
	return []protocol.Vector{weighted(v, t.weight, p.Releases[0])}, nil
}

// step is one local step, of U_k without noise and of V with noise. A user's embedding follows from the user's own ratings alone,
// and never leaves the party. If users are not trained, no row of U_k is touched. With Gradients V stays, and its gradient becomes
// what the party sends: the noisy sum over the sample, divided by its public expectation.
func (t *Horizontal) step(number int) error {
	p, s, d := t.params, t.steps, t.Users.Cols()
	if err := s.gradients(t.Users, p.TrainUsers); err != nil {
		return err
	}
	userRate, itemRate := p.rates(number)
	for k, i := range s.touched {
		s.shift(t.Users.Row(i), s.gradU[k*d:(k+1)*d], userRate/p.batch(p.Items))
	}
	g, batch, sigma := s.gradV.Data(), p.batch(len(t.Own)), s.z*p.Sensitivity(false)
	if !p.Gradients {
		return s.move(s.v, g, nil, itemRate/batch, sigma)
	}
	if err := s.addNoise(g, sigma); err != nil {
		return err
	}
	for i := range g {
		g[i] /= batch
	}
	return nil
}

// Finish runs stage 3, for the party's own use.
func (t *Horizontal) Finish(shared []byte, run protocol.Runner) error {
	v, err := t.params.receive(shared, t.params.Items)
	if err != nil {
		return err
	}
	t.Tuned = t.Tune(v, t.params.FineTune, run)
	return nil
}

// Tune is stage 3. It fits the party's users to V; with RandomUsers it starts from the users of
// stage 2, or from their start if there was no stage 2. Then it makes passes over the party's own
// ratings, which move both U_k and V. V becomes the party's. The result is not private, and never
// leaves the party.
func (t *Horizontal) Tune(v *model.Matrix, passes int, run protocol.Runner) *model.Factors {
	p, r := t.params, t.ratings
	tuned := &model.Factors{Items: v}
	if p.RandomUsers && t.Users != nil {
		tuned.Users = t.Users.Clone()
	} else {
		tuned.Users = t.begin(v, run)
	}
	users := make([]int32, len(r.items))
	for i := range r.rows() {
		for k := r.start[i]; k < r.start[i+1]; k++ {
			users[k] = int32(i)
		}
	}
	order := model.Indices(len(users))
	rng := entropy.Public(p.Seed, fmt.Sprintf("fedmf/fine-tune/%d", t.Own[0]))
	for pass := range passes {
		rng.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
		p.Pass(tuned.Users, tuned.Items, users, r.items, r.value, order, Schedule(p.FineTuneRate, pass+1, passes))
	}
	return tuned
}

// Average is the server's side of VFL- and HFL-SGDMF, a server.Durable. It averages the versions of
// the shared embeddings, by weight, over the parties that took part (FMF paper, figure 3, step s2).
type Average struct {
	*modelserver.Server
	shared *modelserver.Matrix
	params PartyParams
}

// NewAverage makes the strategy. Shared embeddings begin at start: U for VFL, V for HFL. run has the session,
// its cohort, and the schedule with the release of [PartyParams.Release] in every round, or with Gradients
// of [PartyParams.GradientRelease], with width and the noise of its local steps set.
func NewAverage(p PartyParams, start *model.Matrix, run modelserver.Server) *Average {
	shared := &modelserver.Matrix{Matrix: start.Clone()}
	return &Average{newServer("average", run, shared), shared, p}
}

// newServer completes the part of a strategy that does not depend on what a sum does to the shared embeddings.
func newServer(form string, run modelserver.Server, shared *modelserver.Matrix) *modelserver.Server {
	run.Name, run.Domain, run.Shared = "fedmf", "fedsim/fedmf/"+form+"/v3\n", shared
	return &run
}

// Absorb averages the sums into the shared embeddings. If no weight was sent (every party failed to
// train), the embeddings stay.
func (s *Average) Absorb(p *protocol.Plan, sums protocol.Sums, run protocol.Runner) error {
	sum, d := sums.Values[0], s.shared.Cols()
	weight := sum[len(sum)-1]
	if !(weight > 0) {
		return nil
	}
	_, rate := s.params.rates(int(p.Round))
	run.Each(s.shared.Rows(), func(i int) {
		row := s.shared.Row(i)
		for c := range row {
			x := sum[i*d+c] / weight
			if s.params.Gradients {
				row[c] += rate * x
			} else {
				row[c] = x
			}
		}
		s.params.project(row) // an average of feasible points is feasible, except for rounding
	})
	return nil
}

// Snapshot returns U_k.
func (t *Horizontal) Snapshot() ([]byte, error) {
	if t.Users == nil {
		return nil, nil
	}
	return model.AppendFloats(nil, t.Users.Data()...), nil
}

// Resume restores U_k. The ratings are trimmed as they were before.
func (t *Horizontal) Resume(snapshot []byte, src entropy.Source) error {
	if t.steps == nil {
		if err := t.prepare(t.params.StartItems(), src); err != nil {
			return err
		}
		t.Users = model.NewMatrix(len(t.Own), t.params.Rank)
	}
	return model.ReadFloats(t.Users.Data(), snapshot)
}
