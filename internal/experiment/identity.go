package experiment

import (
	"crypto/ed25519"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/secagg/graph"
)

// sessionID derives the session's ID from the releases. The ID is public, as it must be,
// since every plan carries it. Runs of one seed with the same releases draw the same noise,
// and can be compared pair by pair. Runs that differ in the noise, the cohort or the shape
// draw their noise independently: no run can cancel the noise of another. (A reader who knows
// the seed knows the noise of a simulation anyway.)
//
// The ID is the first half of the SHA-256 of the transcript of the domain
// "fedsim/session/v1" with these items: the cohort ([protocol.Transcript.Cohort]), the number of steps
// of the schedule, and the steps. Steps that differ in the length of their models alone count as one step. Each step contributes its rounds, its phase, the number of its releases, and
// each release ([protocol.Transcript.Release]). Noise that parties add is in every step that they take,
// so any setting of theirs makes another session: see [Experiment.recordSettings]. Last comes the digest of what
// the session starts from, if it starts from anything: sessions in a row do not share noise.
func (e *Experiment) sessionID() protocol.SessionID {
	steps := asked(e.Schedule)
	t := protocol.NewTranscript("fedsim/session/v1").
		Cohort(e.Cohort).
		Uint(uint64(len(steps)))
	for _, step := range steps {
		t.Uint(uint64(step.Rounds)).Text(step.Phase).Uint(uint64(len(step.Releases)))
		for _, r := range step.Releases {
			t.Release(r)
		}
	}
	if !e.About().Federated() || e.Schedule.Noise().Kind == protocol.PartyNoise {
		e.recordSettings(t)
	}
	if e.Start != nil {
		t.Text("start-from").Bytes(e.Start.Digest[:])
	}
	sum := t.Sum()
	return protocol.SessionID(sum[:16])
}

// asked joins steps that ask for the same, whatever the length of the model that comes with it.
func asked(s protocol.Schedule) (steps protocol.Schedule) {
	for _, step := range s {
		step.Model = 0
		if last := len(steps) - 1; last >= 0 && steps[last].Alike(step) {
			steps[last].Rounds += step.Rounds
			continue
		}
		steps = append(steps, step)
	}
	return steps
}

// recordSettings adds the size of the data, whether parties train alone, and every key that
// is not what it would be by itself, name and value. A key that is declared later, and left
// alone, changes no session. Keys that change nothing of the training are left out, so that
// a real sum, say, is of the same integers as the ideal one.
func (e *Experiment) recordSettings(t *protocol.Transcript) {
	alone := uint64(0)
	if e.Alone {
		alone = 1
	}
	t.Uint(uint64(e.Data.Users)).Uint(uint64(e.Data.Items)).Float(e.Data.Min).Float(e.Data.Max).Uint(alone)
	facts := algorithm.FactsOf(e.Data)
	for _, k := range e.About().Used() {
		if aside(k) || k == algorithm.SplitSeed.Key && algorithm.SplitSeedOf(e.Config) == algorithm.Seed.Of(e.Config) {
			continue // a split uses the run's seed anyway
		}
		left := e.Config
		left.Reset(k)
		left = left.Choose([]*config.Key{k}, facts)
		if e.Config.Text(k) != left.Text(k) {
			t.Text(k.Name).Text(e.Config.Text(k))
		}
	}
}

// aside reports whether a key leaves the training unchanged. Such keys decide how sums are computed, their
// connections, the measurements, the comparisons, or what belongs to each party alone. The seed
// keys the streams themselves.
func aside(k *config.Key) bool {
	return k.Scope == config.Own || k.Scope == config.Deployed || slices.Contains([]*config.Key{
		algorithm.Seed.Key, algorithm.ChosenBy.Key, algorithm.Secagg.Key, algorithm.Mode.Key, algorithm.NoiseDraw.Key, algorithm.Baselines.Key,
		algorithm.EvalTopK.Key, algorithm.EvalRelevant.Key, algorithm.EvalUsers.Key, algorithm.EvalNegatives.Key, algorithm.EvalBuckets.Key, algorithm.EvalDrift.Key,
		algorithm.Latency.Key, algorithm.Up.Key, algorithm.Down.Key, algorithm.Compute.Key, algorithm.Patience.Key,
	}, k)
}

// Session returns the session of the experiment: derived in a simulation, stated in a deployment.
func (e *Experiment) Session() protocol.SessionID { return e.session }

// Plan returns the plan of a round, except the model; nil if there is no such round.
func (e *Experiment) Plan(round uint64) *protocol.Plan {
	step := e.Schedule.At(round)
	if step == nil {
		return nil
	}
	return &protocol.Plan{Session: e.session, Round: round, Phase: step.Phase, Cohort: e.Cohort, Releases: slices.Clone(step.Releases)}
}

// Plans returns the plan of the first round of every step, except the model.
func (e *Experiment) Plans() []*protocol.Plan {
	list := make([]*protocol.Plan, len(e.Schedule))
	round := uint64(1)
	for i, step := range e.Schedule {
		list[i] = e.Plan(round)
		round += uint64(step.Rounds)
	}
	return list
}

// Draw returns the party that draws the noise of the ideal sum.
func (e *Experiment) Draw() secagg.Draw {
	if algorithm.NoiseDraw.Is(e.Config, "client") {
		return secagg.DrawClient
	}
	return secagg.DrawSum
}

// Real reports whether sums run the whole protocol of secure aggregation.
func (e *Experiment) Real() bool { return algorithm.Secagg.Is(e.Config, "real") }

// Mode returns the kind of attack that real sums defend against.
func (e *Experiment) Mode() graph.Mode {
	if algorithm.Mode.Is(e.Config, graph.Active.String()) {
		return graph.Active
	}
	return graph.SemiHonest
}

// SumParams returns the parameters of real sums among the clients of an enrolment list, given as
// their public keys by ClientID. In semi-honest mode nothing rests on the list.
func (e *Experiment) SumParams(enrolled []ed25519.PublicKey) secagg.Params {
	p := secagg.Params{Mode: e.Mode(), Rounds: e.Schedule.Rounds()}
	if p.Mode == graph.Active {
		p.Identities = enrolled
	}
	return p
}

// sumParams returns the parameters of a real sum, as far as anything follows from them: the
// enrolment list has the right size, and no keys yet.
func (e *Experiment) sumParams() secagg.Params {
	if e.Mode() != graph.Active {
		return e.SumParams(nil)
	}
	var unknown [ed25519.PublicKeySize]byte
	return e.SumParams(slices.Repeat([]ed25519.PublicKey{unknown[:]}, e.Cohort.Clients))
}

// DropoutStages are the stages at which clients drop out.
func (e *Experiment) DropoutStages() []protocol.Stage { return e.stages }
